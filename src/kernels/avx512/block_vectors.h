// SPDX-License-Identifier: Apache-2.0
// 512-bit registers for simd/matmul_blocks.h, but the dot product. Include after the lanes header.
#pragma once

#include "kernels/avx512/int8_groups.h"
#include "kernels/simd/matmul_blocks.h"

namespace lockstep::kernels {
namespace {

struct Avx512Vectors {
  using Int = __m512i;
  using Float = __m512;
  static constexpr int kColumns = 16;
#ifdef LOCKSTEP_USE_SIMDE
  static constexpr int kStreamRows = 2;  // the same code in fewer copies: emulated tiles take long to compile
  static constexpr int kBlockRows = 3;
#else
  static constexpr int kStreamRows = 4;
  static constexpr int kBlockRows = 12;
#endif

  static LOCKSTEP_INLINE Int load_bytes(const std::byte* p) { return _mm512_loadu_si512(p); }
  static LOCKSTEP_INLINE __m128i load_half(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static LOCKSTEP_INLINE Float load_f16(const std::byte* p) { return load_scales(p); }
  static LOCKSTEP_INLINE Int widen_u8(const std::byte* p) { return _mm512_cvtepu8_epi32(load_half(p)); }
  static LOCKSTEP_INLINE Int widen_i8(const std::byte* p) { return _mm512_cvtepi8_epi32(load_half(p)); }
  static LOCKSTEP_INLINE Int and_(Int a, Int b) { return _mm512_and_si512(a, b); }
  static LOCKSTEP_INLINE Int or_(Int a, Int b) { return _mm512_or_si512(a, b); }
  static LOCKSTEP_INLINE Int add(Int a, Int b) { return _mm512_add_epi32(a, b); }
  static LOCKSTEP_INLINE Int shl(Int x, int n) { return _mm512_slli_epi16(x, static_cast<unsigned>(n)); }
  static LOCKSTEP_INLINE Int shr(Int x, int n) { return _mm512_srli_epi16(x, static_cast<unsigned>(n)); }
  static LOCKSTEP_INLINE Int shr32(Int x, int n) { return _mm512_srli_epi32(x, static_cast<unsigned>(n)); }
  static LOCKSTEP_INLINE Int set1_byte(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }
  static LOCKSTEP_INLINE Int set1_int(int32_t x) { return _mm512_set1_epi32(x); }
  template <int kOffset>
  static LOCKSTEP_INLINE Int lookup(Int codes) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4Values));
    const __m128i moved = _mm_add_epi8(values, _mm_set1_epi8(static_cast<char>(kOffset)));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(moved), codes);
  }
  static LOCKSTEP_INLINE Float to_float(Int x) { return _mm512_cvtepi32_ps(x); }
  static LOCKSTEP_INLINE Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static LOCKSTEP_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  static LOCKSTEP_INLINE Float set1(float x) { return _mm512_set1_ps(x); }
  static LOCKSTEP_INLINE Float load(const float* p) { return _mm512_load_ps(p); }
  static LOCKSTEP_INLINE void store(float* p, Float x) { _mm512_store_ps(p, x); }
  static LOCKSTEP_INLINE void pin(Int&) {}
};

template <class V>
LOCKSTEP_INLINE void set_all_block_matmuls(KernelTable* table) {
  set_block_matmuls<V, WeightFormat::kQ5_0, WeightFormat::kQ5_1, WeightFormat::kQ2_K, WeightFormat::kQ3_K,
                    WeightFormat::kQ4_K, WeightFormat::kQ5_K, WeightFormat::kQ6_K, WeightFormat::kIQ4_NL,
                    WeightFormat::kIQ4_XS>(table);
}

}  // namespace
}  // namespace lockstep::kernels
