// SPDX-License-Identifier: Apache-2.0
// Sixteen float lanes in two AVX2 registers. The kernels in simd/ are written over this type and its AVX-512 twin
// (lanes_avx512.h): the same operations in the same order, hence the same bits. Internal linkage throughout; see
// ref/scalar.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/inline.h"

namespace lockstep::kernels {
namespace {

struct Lanes {
  __m256 low, high;
};
struct IntLanes {
  __m256i low, high;
};

/// Lane registers that a tile may keep as accumulators: 12 of 16 ymm.
constexpr int kMaxAccumulators = 6;
/// Tile of the blocked matmul: rows of x, panels of 16 columns.
constexpr int kTileRows = 6;
constexpr int kTilePanels = 1;

// n leading -1, the rest 0, read at an offset.
alignas(64) constexpr int32_t kMaskWindow[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
LOCKSTEP_INLINE __m256i low_mask(int64_t n) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMaskWindow + 16 - n));
}
LOCKSTEP_INLINE __m256i high_mask(int64_t n) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMaskWindow + 24 - n));
}

LOCKSTEP_INLINE Lanes load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
LOCKSTEP_INLINE void store(float* p, Lanes x) {
  _mm256_storeu_ps(p, x.low);
  _mm256_storeu_ps(p + 8, x.high);
}
/// The first n of 16 lanes, 0 <= n <= 16; the others are 0 and their memory is not touched.
LOCKSTEP_INLINE Lanes load_first(const float* p, int64_t n) {
  return {_mm256_maskload_ps(p, low_mask(n)), _mm256_maskload_ps(p + 8, high_mask(n))};
}
LOCKSTEP_INLINE void store_first(float* p, int64_t n, Lanes x) {
  _mm256_maskstore_ps(p, low_mask(n), x.low);
  _mm256_maskstore_ps(p + 8, high_mask(n), x.high);
}
LOCKSTEP_INLINE Lanes broadcast(float x) {
  const __m256 v = _mm256_set1_ps(x);
  return {v, v};
}
LOCKSTEP_INLINE Lanes add(Lanes a, Lanes b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
LOCKSTEP_INLINE Lanes sub(Lanes a, Lanes b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
LOCKSTEP_INLINE Lanes mul(Lanes a, Lanes b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
LOCKSTEP_INLINE Lanes div(Lanes a, Lanes b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
LOCKSTEP_INLINE Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
/// a * b - c
LOCKSTEP_INLINE Lanes fms(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmsub_ps(a.low, b.low, c.low), _mm256_fmsub_ps(a.high, b.high, c.high)};
}
LOCKSTEP_INLINE Lanes negate(Lanes a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_xor_ps(a.low, sign), _mm256_xor_ps(a.high, sign)};
}
/// a > b ? a : b, so b where a lane is NaN.
LOCKSTEP_INLINE Lanes larger(Lanes a, Lanes b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
/// Lanes from n on become `fill`.
LOCKSTEP_INLINE Lanes keep_first(Lanes x, int64_t n, Lanes fill) {
  return {_mm256_blendv_ps(fill.low, x.low, _mm256_castsi256_ps(low_mask(n))),
          _mm256_blendv_ps(fill.high, x.high, _mm256_castsi256_ps(high_mask(n)))};
}
/// Bit i: lane i of a equals lane i of b.
LOCKSTEP_INLINE uint32_t equal_mask(Lanes a, Lanes b) {
  const int low = _mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ));
  const int high = _mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ));
  return static_cast<uint32_t>(low) | (static_cast<uint32_t>(high) << 8);
}

LOCKSTEP_INLINE float sum_tree16(Lanes x) {
  const __m256 eight = _mm256_add_ps(x.low, x.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
/// Largest lane (no lane is NaN).
LOCKSTEP_INLINE float largest_lane(Lanes x) {
  const __m256 eight = _mm256_max_ps(x.low, x.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// --- exp; constants and steps of ref/scalar.h ---
LOCKSTEP_INLINE __m256 exp256(__m256 x) {
  const __m256 shift = _mm256_set1_ps(0x1.8p+23f);
  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 shifted = _mm256_fmadd_ps(x, _mm256_set1_ps(0x1.715476p+0f), shift);
  const __m256 n = _mm256_sub_ps(shifted, shift);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.62e4p-1f), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0x1.7f7d1cp-20f), r);
  __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(0x1.6d113cp-10f), r, _mm256_set1_ps(0x1.120ba2p-7f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.55551ap-5f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.5554dcp-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
  p = _mm256_fmadd_ps(p, r, one);
  p = _mm256_fmadd_ps(p, r, one);
  const __m256i bits = _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(shifted), 23));
  const __m256 too_low = _mm256_cmp_ps(x, _mm256_set1_ps(-0x1.5d589ep+6f), _CMP_LT_OQ);
  const __m256 too_high = _mm256_cmp_ps(x, _mm256_set1_ps(0x1.62e42ep+6f), _CMP_GT_OQ);
  const __m256 result = _mm256_andnot_ps(too_low, _mm256_castsi256_ps(bits));
  const __m256 bounded = _mm256_blendv_ps(result, _mm256_set1_ps(__builtin_inff()), too_high);
  return _mm256_blendv_ps(bounded, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}
LOCKSTEP_INLINE Lanes exp(Lanes x) { return {exp256(x.low), exp256(x.high)}; }

// --- 16-bit formats ---
LOCKSTEP_INLINE __m256 widen_bf16(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
LOCKSTEP_INLINE Lanes load_bf16(const uint16_t* p) {
  const auto* words = reinterpret_cast<const __m128i*>(p);
  return {widen_bf16(_mm_loadu_si128(words)), widen_bf16(_mm_loadu_si128(words + 1))};
}
LOCKSTEP_INLINE Lanes load_f16(const uint16_t* p) {
  const auto* words = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(words)), _mm256_cvtph_ps(_mm_loadu_si128(words + 1))};
}
/// 16 words of two bf16: the low halves and the high halves.
LOCKSTEP_INLINE void load_bf16_pairs(const uint16_t* p, Lanes* even, Lanes* odd) {
  const auto* words = reinterpret_cast<const __m256i*>(p);
  const __m256i high_half = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u));
  const __m256i a = _mm256_loadu_si256(words);
  const __m256i b = _mm256_loadu_si256(words + 1);
  *even = {_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
  *odd = {_mm256_castsi256_ps(_mm256_and_si256(a, high_half)), _mm256_castsi256_ps(_mm256_and_si256(b, high_half))};
}
LOCKSTEP_INLINE __m256i round_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
  const __m256i nan = _mm256_or_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x40));
  return _mm256_blendv_epi8(rounded, nan, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
LOCKSTEP_INLINE void store_bf16(uint16_t* p, Lanes x) {
  const __m256i packed = _mm256_packus_epi32(round_bf16(x.low), round_bf16(x.high));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}

// --- integers ---
LOCKSTEP_INLINE IntLanes round_to_int(Lanes x) { return {_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high)}; }
LOCKSTEP_INLINE IntLanes add(IntLanes a, IntLanes b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
LOCKSTEP_INLINE int32_t sum(IntLanes x) {
  const __m256i eight = _mm256_add_epi32(x.low, x.high);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}
/// Lanes within -128..127 as bytes.
LOCKSTEP_INLINE void store_int8(int8_t* p, IntLanes x) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.low, x.high), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
/// Lanes within -32768..32767 as 16-bit words; each four as 0, 2, 1, 3.
LOCKSTEP_INLINE void store_int16_pairs(int16_t* p, IntLanes x) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.low, x.high), 0xd8);
  const __m256i pairs = _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(words, 0xd8), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), pairs);
}
/// 64-byte aligned.
LOCKSTEP_INLINE IntLanes load_ints(const int32_t* p) {
  return {_mm256_load_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_load_si256(reinterpret_cast<const __m256i*>(p + 8))};
}
LOCKSTEP_INLINE Lanes to_float(IntLanes x) { return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)}; }
/// Largest bit pattern of a magnitude, as an unsigned number: NaN > infinity > finite.
LOCKSTEP_INLINE uint32_t largest_magnitude_bits(Lanes a, Lanes b) {
  const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
  const auto bits = [&](__m256 x) { return _mm256_and_si256(_mm256_castps_si256(x), magnitude); };
  const __m256i eight =
      _mm256_max_epi32(_mm256_max_epi32(bits(a.low), bits(a.high)), _mm256_max_epi32(bits(b.low), bits(b.high)));
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 1))));
}

}  // namespace
}  // namespace lockstep::kernels
