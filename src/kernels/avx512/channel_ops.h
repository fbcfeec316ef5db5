// SPDX-License-Identifier: Apache-2.0
// Tiles of the matmuls with one weight scale per output channel, sixteen columns a register; the instructions that
// multiply come as a parameter (AVX-512 BW or VNNI):
//   Int::add_pairs(sum, w, x)     sum + products of 16-bit pairs
//   Int::Weights, Int::weights(bytes)   int8 weights made ready
//   Int::start(x_sum)             what a group's sum starts from, given the sum of its activations
//   Int::add_quads(sum, weights, x)     sum + products of four int8
// Include after the lanes header.
#pragma once

#include "kernels/simd/matmul_channel.h"

namespace lockstep::kernels {
namespace {

LOCKSTEP_INLINE __m512i load_weights(const std::byte* p) { return _mm512_loadu_si512(p); }
LOCKSTEP_INLINE __m512i dup_activations(const void* p) { return _mm512_set1_epi32(activation_word(p)); }

template <class Int>
struct W8A16Ops {
  using Acc = int32_t;
  static constexpr int kRows = 12;

  template <int kRows>
  static void tile(const MatmulArgs& a, int64_t row, int64_t quad, const std::byte* w, int64_t quads, int32_t* acc) {
    const int16_t* x = a.xq16 + row * a.xq_stride + quad * 4;
    __m512i even_sums[kRows], odd_sums[kRows];  // two chains: one row alone would wait for its own sums
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      even_sums[r] = _mm512_loadu_si512(acc + r * kPanelColumns);
      odd_sums[r] = _mm512_setzero_si512();
    }
    for (int64_t j = 0; j < quads; ++j) {
      const __m512i bytes = load_weights(w + j * kQuadBytes);
      const __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8);
      const __m512i odd = _mm512_srai_epi16(bytes, 8);
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        const int16_t* at = x + r * a.xq_stride + j * 4;
        even_sums[r] = Int::add_pairs(even_sums[r], even, dup_activations(at));
        odd_sums[r] = Int::add_pairs(odd_sums[r], odd, dup_activations(at + 2));
      }
    }
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      _mm512_storeu_si512(acc + r * kPanelColumns, _mm512_add_epi32(even_sums[r], odd_sums[r]));
    }
  }
};

template <class Int>
struct W8A8Ops {
  using Acc = float;
  static constexpr int kRows = 12;

  template <int kRows>
  static void tile(const MatmulArgs& a, int64_t row, int64_t quad, const std::byte* w, int64_t quads, float* acc) {
    for (int64_t first = 0; first < quads; first += kGroupQuads) {
      const int64_t count = quads - first < kGroupQuads ? quads - first : kGroupQuads;
      const int8_t* x = a.xq + row * a.xq_stride + (quad + first) * 4;
      const int64_t group = row * a.group_stride + (quad + first) / kGroupQuads;
      __m512i dot[kRows];
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) dot[r] = _mm512_set1_epi32(Int::start(a.x_sum[group + r * a.group_stride]));
      for (int64_t j = 0; j < count; ++j) {
        const typename Int::Weights weights = Int::weights(load_weights(w + (first + j) * kQuadBytes));
#pragma GCC unroll 12
        for (int r = 0; r < kRows; ++r) {
          dot[r] = Int::add_quads(dot[r], weights, dup_activations(x + r * a.xq_stride + j * 4));
        }
      }
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        float* sum = acc + r * kPanelColumns;
        const __m512 scale = _mm512_set1_ps(a.x_scale[group + r * a.group_stride]);
        _mm512_store_ps(sum, _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), scale, _mm512_load_ps(sum)));
      }
    }
  }
};

}  // namespace
}  // namespace lockstep::kernels
