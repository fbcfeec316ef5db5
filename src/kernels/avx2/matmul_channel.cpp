// SPDX-License-Identifier: Apache-2.0
// One weight scale per output channel on AVX2, eight columns a register. Integers are exact, so each takes the route
// that is fastest: w8a16 sign-extends weights to 16 bits, even and odd elements apart, for vpmaddwd; w8a8 multiplies
// |w| with sign(x, w) by vpmaddubsw, at most 2 * 128 * 127 a pair, so it cannot saturate.
#include "kernels/simd/lanes_avx2.h"
// The lanes come first.
#include "kernels/avx2/avx2_kernels.h"
#include "kernels/simd/fill.h"
#include "kernels/simd/matmul_channel.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kHalf = 8;  // columns in a register

LOCKSTEP_INLINE __m256i load_bytes(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
LOCKSTEP_INLINE __m256i dup_word(const void* p) { return _mm256_set1_epi32(activation_word(p)); }
/// Keeps g++ 12 from hoisting the broadcasts of all rows and spilling them.
LOCKSTEP_INLINE void pin(__m256i& x) { __asm__("" : "+x"(x)); }

struct W8A16Ops {
  using Acc = int32_t;
  static constexpr int kRows = 8;

  template <int kRows>
  [[gnu::noinline]] static void tile(const MatmulArgs& a, int64_t row, int64_t quad, const std::byte* w, int64_t quads,
                                     int32_t* acc) {
    const int16_t* x = a.xq16 + row * a.xq_stride + quad * 4;
    for (int64_t half = 0; half < 2; ++half) {
      __m256i sums[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sums[r] = _mm256_load_si256(reinterpret_cast<const __m256i*>(acc + r * kPanelColumns + half * kHalf));
      }
      for (int64_t j = 0; j < quads; ++j) {
        const __m256i bytes = load_bytes(w + j * kQuadBytes + half * 32);
        const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(bytes, 8), 8);
        const __m256i odd = _mm256_srai_epi16(bytes, 8);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const int16_t* at = x + r * a.xq_stride + j * 4;
          sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(dup_word(at), even));
          sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(dup_word(at + 2), odd));
          pin(sums[r]);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(acc + r * kPanelColumns + half * kHalf), sums[r]);
      }
    }
  }
};

struct W8A8Ops {
  using Acc = float;
  static constexpr int kRows = 6;

  template <int kRows>
  [[gnu::noinline]] static void tile(const MatmulArgs& a, int64_t row, int64_t quad, const std::byte* w, int64_t quads,
                                     float* acc) {
    const __m256i ones = _mm256_set1_epi16(1);
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t first = 0; first < quads; first += kGroupQuads) {
        const int64_t count = quads - first < kGroupQuads ? quads - first : kGroupQuads;
        const int8_t* x = a.xq + row * a.xq_stride + (quad + first) * 4;
        const std::byte* from = w + first * kQuadBytes + half * 32;
        __m256i dot[kRows];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) dot[r] = _mm256_setzero_si256();
        for (int64_t j = 0; j < count; ++j) {
          const __m256i bytes = load_bytes(from + j * kQuadBytes);
          const __m256i magnitude = _mm256_abs_epi8(bytes);
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            const __m256i value = _mm256_sign_epi8(dup_word(x + r * a.xq_stride + j * 4), bytes);
            dot[r] = _mm256_add_epi32(dot[r], _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude, value), ones));
            pin(dot[r]);
          }
        }
        const float* scale = a.x_scale + row * a.group_stride + (quad + first) / kGroupQuads;
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          float* sum = acc + r * kPanelColumns + half * kHalf;
          const __m256 scales = _mm256_set1_ps(scale[r * a.group_stride]);
          _mm256_store_ps(sum, _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot[r]), scales, _mm256_load_ps(sum)));
        }
      }
    }
  }
};

}  // namespace

namespace avx2 {

void add_channel_matmul(KernelTable* table) {
  set_matmul(table, WeightFormat::kW8A16, matmul_channel<W8A16Ops>);
  set_matmul(table, WeightFormat::kW8A8, matmul_channel<W8A8Ops>);
}

}  // namespace avx2
}  // namespace lockstep::kernels
