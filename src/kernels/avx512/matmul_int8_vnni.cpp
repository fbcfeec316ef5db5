// SPDX-License-Identifier: Apache-2.0
// int8 activations with vpdpbusd (unsigned weights times signed activations, four products a lane, no saturation).
// Weights get an offset that makes them unsigned (Q8_0: +128 by flipping the sign bit; nibbles are unsigned already,
// Q4_0's value is q - 8), and the chain of products starts at minus offset times the sum of the activations: exact.
#include "kernels/simd/lanes_avx512.h"
// The lanes come first.
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/avx512/int8_groups.h"
#include "kernels/simd/fill.h"

namespace lockstep::kernels {
namespace {

template <WeightFormat kFormat>
struct VnniOps {
  static constexpr bool kIsQ8 = kFormat == WeightFormat::kQ8G32;
  static constexpr bool kHasMin = kFormat == WeightFormat::kQ4_1;
  static constexpr int64_t kGroupBytes = kIsQ8 ? kQ8GroupBytes : (kHasMin ? kQ4_1GroupBytes : kQ4_0GroupBytes);
  static constexpr int64_t kScales = kIsQ8 ? kQ8Scales : kQ4Scales;
  static constexpr int32_t kOffset = kIsQ8 ? 128 : (kHasMin ? 0 : 8);
  static constexpr int kStreamRows = 8;
  static constexpr int kAskingRows = kStreamRows + 1;
  static constexpr int kBlockRows = 12;

  struct alignas(64) Group {
    __m512i w[8];
    __m512 d, m;
  };
  struct Rows {
    QuantizedRows x;
    int32_t start[kIntRowBlock][kIntGroups];     ///< -offset * x_sum
    float scaled_sum[kIntRowBlock][kIntGroups];  ///< x_scale * x_sum, for Q4_1
  };

  static LOCKSTEP_INLINE void unpack(const std::byte* group, Group* out) {
    if constexpr (kIsQ8) {
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) out->w[j] = _mm512_xor_si512(load_bytes(group + j * 64), _mm512_set1_epi8(-128));
    } else {
      unpack_nibbles(group, out->w);
    }
    out->d = load_scales(group + kScales);
    if (kHasMin) out->m = load_scales(group + kScales + 32);
  }

  static void prepare(const QuantizedRows& x, int64_t rows, int64_t groups, Rows* out) {
    out->x = x;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t g = 0; g < groups; ++g) {
        out->start[r][g] = -kOffset * x.sum_at(r, g);
        if (kHasMin) out->scaled_sum[r][g] = x.scale_at(r, g) * static_cast<float>(x.sum_at(r, g));
      }
    }
  }

  static LOCKSTEP_INLINE __m512 step(__m512 acc, const Group& w, const int8_t* x, float x_scale, int32_t start,
                                     float scaled_sum) {
    __m512i dot = _mm512_set1_epi32(start);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) dot = _mm512_dpbusd_epi32(dot, w.w[j], dup_word(x, j));
    const __m512 sum = add_scaled(acc, dot, x_scale, w.d);
    return kHasMin ? add_min(sum, scaled_sum, w.m) : sum;
  }

  template <int kRows>
  static LOCKSTEP_INLINE void stream(const QuantizedRows& x, const std::byte* group, int64_t groups, float* acc) {
    __m512 sums[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums[r] = _mm512_load_ps(acc + r * 16);
    for (int64_t g = 0; g < groups; ++g) {
      Group w;
      unpack(group + g * kGroupBytes, &w);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const int32_t x_sum = x.sum_at(r, g);
        const float scale = x.scale_at(r, g);
        sums[r] = step(sums[r], w, x.group(r, g), scale, -kOffset * x_sum,
                       kHasMin ? scale * static_cast<float>(x_sum) : 0.0f);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) _mm512_store_ps(acc + r * 16, sums[r]);
  }

  template <int kRows>
  static LOCKSTEP_INLINE void block(const Rows& rows, int64_t row, const Group* group, int64_t groups,
                                    GroupsAhead ahead, float* acc) {
    __m512 sums[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums[r] = _mm512_load_ps(acc + r * 16);
    for (int64_t g = 0; g < groups; ++g) {
      ahead.ask(g);
      const Group& w = group[g];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        sums[r] = step(sums[r], w, rows.x.group(row + r, g), rows.x.scale_at(row + r, g), rows.start[row + r][g],
                       kHasMin ? rows.scaled_sum[row + r][g] : 0.0f);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) _mm512_store_ps(acc + r * 16, sums[r]);
  }
};

}  // namespace

namespace LOCKSTEP_AVX512_NAMESPACE {

void add_int8_matmul_vnni(KernelTable* table) {
  set_matmul(table, WeightFormat::kQ8G32, matmul_int8<VnniOps<WeightFormat::kQ8G32>>);
  set_matmul(table, WeightFormat::kQ4_0, matmul_int8<VnniOps<WeightFormat::kQ4_0>>);
  set_matmul(table, WeightFormat::kQ4_1, matmul_int8<VnniOps<WeightFormat::kQ4_1>>);
}

}  // namespace LOCKSTEP_AVX512_NAMESPACE
}  // namespace lockstep::kernels
