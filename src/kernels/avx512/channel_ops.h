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
/// Keeps g++ 12 from hoisting the broadcasts of all rows and spilling them.
#ifdef LOCKSTEP_USE_SIMDE
LOCKSTEP_INLINE void pin(__m512i&) {}
#else
LOCKSTEP_INLINE void pin(__m512i& x) { __asm__("" : "+v"(x)); }
#endif
LOCKSTEP_INLINE __m512i dup_activations(const void* p) { return _mm512_set1_epi32(activation_word(p)); }

template <class Int>
struct W8A16Ops {
  using Acc = int32_t;
  static constexpr int kRows = 12;

  template <int kRows>
  [[gnu::noinline]] static void tile(const MatmulArgs& a, int64_t row, int64_t quad, const std::byte* w, int64_t quads,
                                     int32_t* acc) {
    const int16_t* x = a.xq16 + row * a.xq_stride + quad * 4;
    // Two chains for few rows, which would wait for their own sums.
    constexpr int kChains = kRows <= 4 ? 2 : 1;
    __m512i sums[kRows][kChains];
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      sums[r][kChains - 1] = _mm512_setzero_si512();
      sums[r][0] = _mm512_loadu_si512(acc + r * kPanelColumns);
    }
    for (int64_t j = 0; j < quads; ++j) {
      const __m512i bytes = load_weights(w + j * kQuadBytes);
      const __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(bytes, 8), 8);
      const __m512i odd = _mm512_srai_epi16(bytes, 8);
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        const int16_t* at = x + r * a.xq_stride + j * 4;
        sums[r][0] = Int::add_pairs(sums[r][0], even, dup_activations(at));
        sums[r][kChains - 1] = Int::add_pairs(sums[r][kChains - 1], odd, dup_activations(at + 2));
        pin(sums[r][0]);
      }
    }
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const __m512i sum = kChains == 2 ? _mm512_add_epi32(sums[r][0], sums[r][kChains - 1]) : sums[r][0];
      _mm512_storeu_si512(acc + r * kPanelColumns, sum);
    }
  }
};

template <class Int>
struct W8A8Ops {
  using Acc = float;
  static constexpr int kRows = 12;

  template <int kRows>
  [[gnu::noinline]] static void tile(const MatmulArgs& a, int64_t row, int64_t quad, const std::byte* w, int64_t quads,
                                     float* acc) {
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
          pin(dot[r]);
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
