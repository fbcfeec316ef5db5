// SPDX-License-Identifier: Apache-2.0
// Scalar arithmetic of the reference. Everything here has internal linkage and nothing comes from std:: at run time:
// these files are compiled with AVX and FMA, and a weak symbol that the linker shares with baseline code would crash an
// older CPU before it can be told so (tests/tools/check_isa_symbols.py).
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace lockstep::kernels {
namespace {

constexpr int kLanes = 16;

inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
inline float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline float fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }

inline float from_f32(float x) { return x; }
inline float from_bf16(uint16_t x) { return float_of(static_cast<uint32_t>(x) << 16); }
inline float from_f16(uint16_t x) { return _cvtsh_ss(x); }

/// Round to nearest even by integers, as base/half.h's f32_to_bf16.
inline uint16_t to_bf16(float x) {
  const uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float sum_tree16(float* lane) {
  for (int step = kLanes / 2; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) lane[i] += lane[i + step];
  }
  return lane[0];
}

/// exp(x): n = round(x / ln 2), r = x - n ln 2 in two parts, exp(r) = 1 + r + r^2 P(r), P of degree 4 interpolated at
/// Chebyshev nodes of [-ln2/2, ln2/2] (relative error 1.0e-8), times 2^n by adding n to the exponent field: the result
/// of an unflushed x is always normal.
inline float exp_scalar(float x) {
  constexpr float kLog2e = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e4p-1f;
  constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  constexpr float kRound = 0x1.8p+23f;        // adding it leaves the nearest integer in the low bits
  constexpr float kLowest = -0x1.5d589ep+6f;  // smallest x with exp(x) >= 2^-126
  constexpr float kHighest = 0x1.62e42ep+6f;  // largest x with a finite exp(x)
  const float shifted = fma_f32(x, kLog2e, kRound);
  const float n = shifted - kRound;
  const float r = fma_f32(n, -kLn2Low, fma_f32(n, -kLn2High, x));
  float p = 0x1.6d113cp-10f;
  p = fma_f32(p, r, 0x1.120ba2p-7f);
  p = fma_f32(p, r, 0x1.55551ap-5f);
  p = fma_f32(p, r, 0x1.5554dcp-3f);
  p = fma_f32(p, r, 0.5f);
  p = fma_f32(p, r, 1.0f);
  p = fma_f32(p, r, 1.0f);
  const float result = float_of(bits_of(p) + (bits_of(shifted) << 23));
  if (x > kHighest) return float_of(0x7f800000u);
  if (x < kLowest) return 0.0f;
  return x == x ? result : x;
}

}  // namespace
}  // namespace lockstep::kernels
