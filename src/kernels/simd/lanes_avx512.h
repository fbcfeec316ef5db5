// SPDX-License-Identifier: Apache-2.0
// Sixteen float lanes in one AVX-512 register; see lanes_avx2.h for what each operation means.
#pragma once

#include <cstdint>

#include "kernels/avx512/intrinsics.h"
#include "kernels/simd/inline.h"

namespace lockstep::kernels {
namespace {

struct Lanes {
  __m512 v;
};
struct IntLanes {
  __m512i v;
};

/// Lane registers that a tile may keep as accumulators: 24 of 32 zmm.
constexpr int kMaxAccumulators = 24;
/// Tile of the blocked matmul: rows of x, panels of 16 columns.
constexpr int kTileRows = 12;
constexpr int kTilePanels = 2;

LOCKSTEP_INLINE __mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }

LOCKSTEP_INLINE Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
LOCKSTEP_INLINE void store(float* p, Lanes x) { _mm512_storeu_ps(p, x.v); }
LOCKSTEP_INLINE Lanes load_first(const float* p, int64_t n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
LOCKSTEP_INLINE void store_first(float* p, int64_t n, Lanes x) { _mm512_mask_storeu_ps(p, first_lanes(n), x.v); }
LOCKSTEP_INLINE Lanes broadcast(float x) { return {_mm512_set1_ps(x)}; }
LOCKSTEP_INLINE Lanes add(Lanes a, Lanes b) { return {_mm512_add_ps(a.v, b.v)}; }
LOCKSTEP_INLINE Lanes sub(Lanes a, Lanes b) { return {_mm512_sub_ps(a.v, b.v)}; }
LOCKSTEP_INLINE Lanes mul(Lanes a, Lanes b) { return {_mm512_mul_ps(a.v, b.v)}; }
LOCKSTEP_INLINE Lanes div(Lanes a, Lanes b) { return {_mm512_div_ps(a.v, b.v)}; }
LOCKSTEP_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
LOCKSTEP_INLINE Lanes fms(Lanes a, Lanes b, Lanes c) { return {_mm512_fmsub_ps(a.v, b.v, c.v)}; }
LOCKSTEP_INLINE Lanes negate(Lanes a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0f))}; }
LOCKSTEP_INLINE Lanes larger(Lanes a, Lanes b) { return {_mm512_max_ps(a.v, b.v)}; }
LOCKSTEP_INLINE Lanes keep_first(Lanes x, int64_t n, Lanes fill) {
  return {_mm512_mask_mov_ps(fill.v, first_lanes(n), x.v)};
}
LOCKSTEP_INLINE uint32_t equal_mask(Lanes a, Lanes b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ); }

LOCKSTEP_INLINE __m256 low_half(__m512 x) { return _mm512_castps512_ps256(x); }
LOCKSTEP_INLINE __m256 high_half(__m512 x) {
  return _mm256_castsi256_ps(_mm512_extracti64x4_epi64(_mm512_castps_si512(x), 1));
}
LOCKSTEP_INLINE float sum_tree16(Lanes x) {
  const __m256 eight = _mm256_add_ps(low_half(x.v), high_half(x.v));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
LOCKSTEP_INLINE float largest_lane(Lanes x) {
  const __m256 eight = _mm256_max_ps(low_half(x.v), high_half(x.v));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// --- exp; constants and steps of ref/scalar.h ---
LOCKSTEP_INLINE Lanes exp(Lanes x) {
  const __m512 shift = _mm512_set1_ps(0x1.8p+23f);
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 shifted = _mm512_fmadd_ps(x.v, _mm512_set1_ps(0x1.715476p+0f), shift);
  const __m512 n = _mm512_sub_ps(shifted, shift);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.62e4p-1f), x.v);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.7f7d1cp-20f), r);
  __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0x1.6d113cp-10f), r, _mm512_set1_ps(0x1.120ba2p-7f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.55551ap-5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.5554dcp-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, r, one);
  p = _mm512_fmadd_ps(p, r, one);
  const __m512i bits = _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(shifted), 23));
  const __mmask16 not_low = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(-0x1.5d589ep+6f), _CMP_NLT_UQ);
  const __mmask16 too_high = _mm512_cmp_ps_mask(x.v, _mm512_set1_ps(0x1.62e42ep+6f), _CMP_GT_OQ);
  const __m512 result = _mm512_maskz_mov_ps(not_low, _mm512_castsi512_ps(bits));
  const __m512 bounded = _mm512_mask_mov_ps(result, too_high, _mm512_set1_ps(__builtin_inff()));
  return {_mm512_mask_mov_ps(bounded, _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), x.v)};
}

// --- 16-bit formats ---
LOCKSTEP_INLINE Lanes load_bf16(const uint16_t* p) {
  const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16))};
}
LOCKSTEP_INLINE Lanes load_f16(const uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
LOCKSTEP_INLINE void load_bf16_pairs(const uint16_t* p, Lanes* even, Lanes* odd) {
  const __m512i words = _mm512_loadu_si512(p);
  *even = {_mm512_castsi512_ps(_mm512_slli_epi32(words, 16))};
  *odd = {_mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u))))};
}
LOCKSTEP_INLINE void store_bf16(uint16_t* p, Lanes x) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i high = _mm512_srli_epi32(bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
  const __m512i nan = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
  const __m512i words = _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), nan);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(words));
}

// --- integers ---
LOCKSTEP_INLINE IntLanes round_to_int(Lanes x) { return {_mm512_cvtps_epi32(x.v)}; }
LOCKSTEP_INLINE IntLanes add(IntLanes a, IntLanes b) { return {_mm512_add_epi32(a.v, b.v)}; }
LOCKSTEP_INLINE int32_t sum(IntLanes x) {
  const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(x.v), _mm512_extracti64x4_epi64(x.v, 1));
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}
LOCKSTEP_INLINE void store_int8(int8_t* p, IntLanes x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x.v));
}
LOCKSTEP_INLINE void store_int16_pairs(int16_t* p, IntLanes x) {
  const __m256i words = _mm512_cvtepi32_epi16(x.v);
  const __m256i pairs = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(words, 0xd8), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), pairs);
}
LOCKSTEP_INLINE IntLanes load_ints(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
LOCKSTEP_INLINE Lanes to_float(IntLanes x) { return {_mm512_cvtepi32_ps(x.v)}; }
LOCKSTEP_INLINE uint32_t largest_magnitude_bits(Lanes a, Lanes b) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  const __m512i both = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a.v), magnitude),
                                        _mm512_and_si512(_mm512_castps_si512(b.v), magnitude));
  const __m256i eight = _mm256_max_epi32(_mm512_castsi512_si256(both), _mm512_extracti64x4_epi64(both, 1));
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 1))));
}

}  // namespace
}  // namespace lockstep::kernels
