// SPDX-License-Identifier: Apache-2.0
// int8 activations on AVX-512 BW without VNNI: the routes of avx2/matmul_int8.cpp on 16 columns a register.
#include "kernels/simd/lanes_avx512.h"
// The lanes come first.
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/avx512/int8_groups.h"
#include "kernels/simd/fill.h"

namespace lockstep::kernels {
namespace {

template <bool kHasMin>
struct Q4Ops {
  static constexpr int64_t kGroupBytes = kHasMin ? kQ4_1GroupBytes : kQ4_0GroupBytes;
  static constexpr int kStreamRows = 8;
  static constexpr int kAskingRows = kStreamRows + 1;
  static constexpr int kBlockRows = 12;

  struct alignas(64) Group {
    __m512i w[8];
    __m512 d, m;
  };
  struct Rows {
    QuantizedRows x;
    float side[kIntRowBlock][kIntGroups];  ///< Q4_1: x_scale * x_sum; Q4_0: 8 * x_sum, an integer below 2^24
  };

  static LOCKSTEP_INLINE void unpack(const std::byte* group, Group* out) {
    unpack_nibbles(group, out->w);
    out->d = load_scales(group + kQ4Scales);
    if (kHasMin) out->m = load_scales(group + kQ4Scales + 32);
  }
  static LOCKSTEP_INLINE float side_of(const QuantizedRows& x, int64_t row, int64_t g) {
    const auto sum = static_cast<float>(x.sum_at(row, g));
    return kHasMin ? x.scale_at(row, g) * sum : 8.0f * sum;
  }
  static void prepare(const QuantizedRows& x, int64_t rows, int64_t groups, Rows* out) {
    out->x = x;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t g = 0; g < groups; ++g) out->side[r][g] = side_of(x, r, g);
    }
  }

  static LOCKSTEP_INLINE __m512 step(__m512 acc, const Group& w, const int8_t* x, float scale, float side) {
    __m512i pairs = _mm512_maddubs_epi16(w.w[0], dup_word(x, 0));
#pragma GCC unroll 8
    for (int j = 1; j < 8; ++j) pairs = _mm512_add_epi16(pairs, _mm512_maddubs_epi16(w.w[j], dup_word(x, j)));
    const __m512 total = _mm512_cvtepi32_ps(_mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
    const __m512 d_scaled = _mm512_mul_ps(_mm512_set1_ps(scale), w.d);
    if (kHasMin) return add_min(_mm512_fmadd_ps(total, d_scaled, acc), side, w.m);
    return _mm512_fmadd_ps(_mm512_sub_ps(total, _mm512_set1_ps(side)), d_scaled, acc);
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
      for (int r = 0; r < kRows; ++r) sums[r] = step(sums[r], w, x.group(r, g), x.scale_at(r, g), side_of(x, r, g));
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
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        sums[r] = step(sums[r], group[g], rows.x.group(row + r, g), rows.x.scale_at(row + r, g), rows.side[row + r][g]);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) _mm512_store_ps(acc + r * 16, sums[r]);
  }
};

struct Q8Ops {
  static constexpr int64_t kGroupBytes = kQ8GroupBytes;
  static constexpr int kStreamRows = 8;
  static constexpr int kAskingRows = kStreamRows + 1;
  static constexpr int kBlockRows = 12;

  struct alignas(64) Group {
    __m512i pairs[16];  ///< 2j: elements 4j and 4j+2 of each column as int16; 2j+1: 4j+1 and 4j+3
    __m512 d;
  };
  struct Rows {
    QuantizedRows x;
    alignas(64) int16_t pairs[kIntRowBlock][kIntGroups * kGroup + 32];  ///< the same pairing; a line of padding
  };

  static LOCKSTEP_INLINE __m512i even_bytes(__m512i x) { return _mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8); }
  static LOCKSTEP_INLINE __m512i odd_bytes(__m512i x) { return _mm512_srai_epi16(x, 8); }

  static LOCKSTEP_INLINE void unpack(const std::byte* group, Group* out) {
    for (int j = 0; j < 8; ++j) {
      const __m512i w = load_bytes(group + j * 64);
      out->pairs[2 * j] = even_bytes(w);
      out->pairs[2 * j + 1] = odd_bytes(w);
    }
    out->d = load_scales(group + kQ8Scales);
  }

  static void prepare(const QuantizedRows& x, int64_t rows, int64_t groups, Rows* out) {
    out->x = x;
    for (int64_t r = 0; r < rows; ++r) {
      const int8_t* from = x.group(r, 0);
      for (int64_t i = 0; i < groups * kGroup; i += 4) {
        int16_t* to = out->pairs[r] + i;
        to[0] = from[i];
        to[1] = from[i + 2];
        to[2] = from[i + 1];
        to[3] = from[i + 3];
      }
    }
  }

  /// |w| times x with w's sign: at most 2 * 128 * 127 a pair, so vpmaddubsw cannot saturate.
  template <int kRows>
  static LOCKSTEP_INLINE void stream(const QuantizedRows& x, const std::byte* group, int64_t groups, float* acc) {
    const __m512i ones = _mm512_set1_epi16(1);
    const __m512i zero = _mm512_setzero_si512();
    for (int64_t g = 0; g < groups; ++g, group += kGroupBytes) {
      __m512i dot[kRows];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) dot[r] = zero;
      for (int j = 0; j < 8; ++j) {
        const __m512i w = load_bytes(group + j * 64);
        const __m512i magnitude = _mm512_abs_epi8(w);
        const __mmask64 negative = _mm512_movepi8_mask(w);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const __m512i value = dup_word(x.group(r, g), j);
          const __m512i signed_value = _mm512_mask_sub_epi8(value, negative, zero, value);
          dot[r] = _mm512_add_epi32(dot[r], _mm512_madd_epi16(_mm512_maddubs_epi16(magnitude, signed_value), ones));
        }
      }
      const __m512 d = load_scales(group + kQ8Scales);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r)
        _mm512_store_ps(acc + r * 16, add_scaled(_mm512_load_ps(acc + r * 16), dot[r], x.scale_at(r, g), d));
    }
  }

  template <int kRows>
  static LOCKSTEP_INLINE void block(const Rows& rows, int64_t row, const Group* group, int64_t groups,
                                    GroupsAhead ahead, float* acc) {
    __m512 sums[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sums[r] = _mm512_load_ps(acc + r * 16);
    for (int64_t g = 0; g < groups; ++g) {
      ahead.ask(g);
      __m512i dot[kRows];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) dot[r] = _mm512_setzero_si512();
#pragma GCC unroll 4
      for (int j = 0; j < 16; ++j) {
        const __m512i w = group[g].pairs[j];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          dot[r] = _mm512_add_epi32(dot[r], _mm512_madd_epi16(w, dup_word(rows.pairs[row + r] + g * kGroup, j)));
        }
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sums[r] = add_scaled(sums[r], dot[r], rows.x.scale_at(row + r, g), group[g].d);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) _mm512_store_ps(acc + r * 16, sums[r]);
  }
};

}  // namespace

namespace LOCKSTEP_AVX512_NAMESPACE {

void add_int8_matmul(KernelTable* table) {
  set_matmul(table, WeightFormat::kQ8G32, matmul_int8<Q8Ops>);
  set_matmul(table, WeightFormat::kQ4_0, matmul_int8<Q4Ops<false>>);
  set_matmul(table, WeightFormat::kQ4_1, matmul_int8<Q4Ops<true>>);
}

}  // namespace LOCKSTEP_AVX512_NAMESPACE
}  // namespace lockstep::kernels
