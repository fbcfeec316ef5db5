// SPDX-License-Identifier: Apache-2.0
// Packed groups of weights as 512-bit registers: one holds 4 elements of k for 16 columns. Include after the lanes
// header.
#pragma once

#include "kernels/simd/matmul_int8.h"

namespace lockstep::kernels {
namespace {

LOCKSTEP_INLINE __m512i load_bytes(const void* p) { return _mm512_loadu_si512(p); }
LOCKSTEP_INLINE __m512 load_scales(const std::byte* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
LOCKSTEP_INLINE __m512i dup_word(const void* p, int64_t index) { return _mm512_set1_epi32(word_at(p, index)); }

/// w[j] = elements 4j..4j+3 as bytes 0..15.
LOCKSTEP_INLINE void unpack_nibbles(const std::byte* group, __m512i* w) {
  const __m512i mask = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i pairs = load_bytes(group + j * 64);
    w[j] = _mm512_and_si512(pairs, mask);
    w[j + 4] = _mm512_and_si512(_mm512_srli_epi16(pairs, 4), mask);
  }
}

constexpr int64_t kQ8Scales = kGroup * kPanelColumns;
constexpr int64_t kQ4Scales = kGroup * kPanelColumns / 2;

/// acc + dot * (x_scale * d), and Q4_1's min term.
LOCKSTEP_INLINE __m512 add_scaled(__m512 acc, __m512i dot, float x_scale, __m512 d) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(_mm512_set1_ps(x_scale), d), acc);
}
LOCKSTEP_INLINE __m512 add_min(__m512 acc, float x_scaled_sum, __m512 m) {
  return _mm512_fmadd_ps(_mm512_set1_ps(x_scaled_sum), m, acc);
}

}  // namespace
}  // namespace lockstep::kernels
