// SPDX-License-Identifier: Apache-2.0
// int8 activations on AVX2. Integers are exact, so each tile may take whatever route is fastest:
//  - 4-bit weights are unsigned: eight vpmaddubsw pair sums stay within an int16 (8 * 2 * 15 * 127 = 30480), then one
//  vpmaddwd;
//  - 8-bit weights, few rows: vpmaddubsw of |w| and sign(x, w), at most 2 * 128 * 127 = 32512 a pair, so it cannot
//  saturate;
//  - 8-bit weights, many rows: both sides widened to 16 bits beforehand, vpmaddwd.
#include "kernels/simd/lanes_avx2.h"
// The lanes come first.
#include "kernels/avx2/avx2_kernels.h"
#include "kernels/simd/fill.h"
#include "kernels/simd/matmul_int8.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kHalf = 8;  // columns in a register

LOCKSTEP_INLINE __m256i load_bytes(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
LOCKSTEP_INLINE __m256 load_scales(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
LOCKSTEP_INLINE __m256i dup_word(const void* p, int64_t index) { return _mm256_set1_epi32(word_at(p, index)); }
/// Keeps g++ 12 from hoisting the broadcasts of all rows and spilling them.
LOCKSTEP_INLINE void pin(__m256i& x) { __asm__("" : "+x"(x)); }

/// Sum over a group of x * nibbles, for 8 columns: w[j] holds elements 4j..4j+3.
LOCKSTEP_INLINE __m256i dot_nibbles(const __m256i* w, const int8_t* x) {
  __m256i pairs = _mm256_maddubs_epi16(w[0], dup_word(x, 0));
#pragma GCC unroll 8
  for (int j = 1; j < 8; ++j) pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[j], dup_word(x, j)));
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

template <bool kHasMin>
struct Q4Ops {
  static constexpr int64_t kGroupBytes = kHasMin ? kQ4_1GroupBytes : kQ4_0GroupBytes;
  static constexpr int64_t kScales = kGroup * kPanelColumns / 2;
  static constexpr int kStreamRows = 6;
  static constexpr int kAskingRows = 2;
  static constexpr int kBlockRows = 6;

  struct alignas(64) Group {
    __m256i nibbles[2][8];
    __m256 d[2], m[2];
  };
  struct Rows {
    QuantizedRows x;
    float side[kIntRowBlock][kIntGroups];  ///< Q4_1: x_scale * x_sum; Q4_0: 8 * x_sum, an integer below 2^24
  };

  static LOCKSTEP_INLINE void unpack_half(const std::byte* group, int64_t half, __m256i* w) {
    const __m256i mask = _mm256_set1_epi8(15);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const __m256i pairs = load_bytes(group + j * 64 + half * 32);
      w[j] = _mm256_and_si256(pairs, mask);
      w[j + 4] = _mm256_and_si256(_mm256_srli_epi16(pairs, 4), mask);
    }
  }

  static LOCKSTEP_INLINE void unpack(const std::byte* group, Group* out) {
    for (int64_t half = 0; half < 2; ++half) {
      unpack_half(group, half, out->nibbles[half]);
      out->d[half] = load_scales(group + kScales + half * 16);
      if (kHasMin) out->m[half] = load_scales(group + kScales + 32 + half * 16);
    }
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

  /// acc + the group's share, for 8 columns.
  static LOCKSTEP_INLINE __m256 step(__m256 acc, const __m256i* w, __m256 d, __m256 m, const int8_t* x, float scale,
                                     float side) {
    __m256i dot = dot_nibbles(w, x);
    pin(dot);
    const __m256 total = _mm256_cvtepi32_ps(dot);
    const __m256 side8 = _mm256_set1_ps(side);
    const __m256 d_scaled = _mm256_mul_ps(_mm256_set1_ps(scale), d);
    if (kHasMin) return _mm256_fmadd_ps(side8, m, _mm256_fmadd_ps(total, d_scaled, acc));
    return _mm256_fmadd_ps(_mm256_sub_ps(total, side8), d_scaled, acc);  // the difference is exact: integers below 2^24
  }

  template <int kRows>
  static LOCKSTEP_INLINE void stream(const QuantizedRows& x, const std::byte* group, int64_t groups, float* acc) {
    for (int64_t half = 0; half < 2; ++half) {
      __m256 sums[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r] = _mm256_load_ps(acc + r * 16 + half * kHalf);
      for (int64_t g = 0; g < groups; ++g) {
        const std::byte* from = group + g * kGroupBytes;
        if constexpr (kRows >= kAskingRows) ask_ahead<kGroupBytes / 2>(group + (half * groups + g) * (kGroupBytes / 2));
        __m256i w[8];
        unpack_half(from, half, w);
        const __m256 d = load_scales(from + kScales + half * 16);
        const __m256 m = kHasMin ? load_scales(from + kScales + 32 + half * 16) : d;
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
          sums[r] = step(sums[r], w, d, m, x.group(r, g), x.scale_at(r, g), side_of(x, r, g));
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) _mm256_store_ps(acc + r * 16 + half * kHalf, sums[r]);
    }
  }

  template <int kRows>
  static LOCKSTEP_INLINE void block(const Rows& rows, int64_t row, const Group* group, int64_t groups,
                                    GroupsAhead ahead, float* acc) {
    for (int64_t half = 0; half < 2; ++half) {
      __m256 sums[kRows];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r] = _mm256_load_ps(acc + r * 16 + half * kHalf);
      for (int64_t g = 0; g < groups; ++g) {
        ahead.ask(g);
        __m256i w[8];
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) w[j] = group[g].nibbles[half][j];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          sums[r] = step(sums[r], w, group[g].d[half], group[g].m[half], rows.x.group(row + r, g),
                         rows.x.scale_at(row + r, g), rows.side[row + r][g]);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) _mm256_store_ps(acc + r * 16 + half * kHalf, sums[r]);
    }
  }
};

struct Q8Ops {
  static constexpr int64_t kGroupBytes = kQ8GroupBytes;
  static constexpr int64_t kScales = kGroup * kPanelColumns;
  static constexpr int kStreamRows = 4;
  static constexpr int kAskingRows = 2;
  static constexpr int kBlockRows = 4;

  struct alignas(64) Group {
    __m256i pairs[16][2];  ///< 2j: elements 4j and 4j+2 of each column as int16; 2j+1: 4j+1 and 4j+3
    __m256 d[2];
  };
  struct Rows {
    QuantizedRows x;
    alignas(64) int16_t pairs[kIntRowBlock][kIntGroups * kGroup + 32];  ///< the same pairing; a line of padding
  };

  static LOCKSTEP_INLINE __m256i even_bytes(__m256i x) { return _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8); }
  static LOCKSTEP_INLINE __m256i odd_bytes(__m256i x) { return _mm256_srai_epi16(x, 8); }

  static LOCKSTEP_INLINE void unpack(const std::byte* group, Group* out) {
    for (int j = 0; j < 8; ++j) {
      for (int half = 0; half < 2; ++half) {
        const __m256i w = load_bytes(group + j * 64 + half * 32);
        out->pairs[2 * j][half] = even_bytes(w);
        out->pairs[2 * j + 1][half] = odd_bytes(w);
      }
    }
    out->d[0] = load_scales(group + kScales);
    out->d[1] = load_scales(group + kScales + 16);
  }

  static void prepare(const QuantizedRows& x, int64_t rows, int64_t groups, Rows* out) {
    out->x = x;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t g = 0; g < groups; ++g) {
        const __m256i bytes = load_bytes(x.group(r, g));
        const __m256i even = even_bytes(bytes);
        const __m256i odd = odd_bytes(bytes);
        auto* to = reinterpret_cast<__m256i*>(out->pairs[r] + g * kGroup);
        // Words in the order even 0, odd 0, even 1, odd 1, ...
        const __m256i low = _mm256_unpacklo_epi32(even, odd);
        const __m256i high = _mm256_unpackhi_epi32(even, odd);
        _mm256_storeu_si256(to, _mm256_permute2x128_si256(low, high, 0x20));
        _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(low, high, 0x31));
      }
    }
  }

  static LOCKSTEP_INLINE void scale_into(float* acc, __m256i dot, __m256 scale, __m256 d) {
    _mm256_store_ps(acc, _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(scale, d), _mm256_load_ps(acc)));
  }

  template <int kRows>
  static LOCKSTEP_INLINE void stream(const QuantizedRows& x, const std::byte* group, int64_t groups, float* acc) {
    const __m256i ones = _mm256_set1_epi16(1);
    for (int64_t g = 0; g < groups; ++g, group += kGroupBytes) {
      __m256i dot[kRows][2];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) dot[r][0] = dot[r][1] = _mm256_setzero_si256();
      if constexpr (kRows >= kAskingRows) ask_ahead<kGroupBytes>(group);
      for (int j = 0; j < 8; ++j) {
        const __m256i w0 = load_bytes(group + j * 64);
        const __m256i w1 = load_bytes(group + j * 64 + 32);
        const __m256i abs0 = _mm256_abs_epi8(w0);
        const __m256i abs1 = _mm256_abs_epi8(w1);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const __m256i value = dup_word(x.group(r, g), j);
          dot[r][0] = _mm256_add_epi32(
              dot[r][0], _mm256_madd_epi16(_mm256_maddubs_epi16(abs0, _mm256_sign_epi8(value, w0)), ones));
          dot[r][1] = _mm256_add_epi32(
              dot[r][1], _mm256_madd_epi16(_mm256_maddubs_epi16(abs1, _mm256_sign_epi8(value, w1)), ones));
        }
      }
      const __m256 d0 = load_scales(group + kScales);
      const __m256 d1 = load_scales(group + kScales + 16);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m256 scale = _mm256_set1_ps(x.scale_at(r, g));
        scale_into(acc + r * 16, dot[r][0], scale, d0);
        scale_into(acc + r * 16 + kHalf, dot[r][1], scale, d1);
      }
    }
  }

  template <int kRows>
  static LOCKSTEP_INLINE void block(const Rows& rows, int64_t row, const Group* group, int64_t groups,
                                    GroupsAhead ahead, float* acc) {
    for (int64_t g = 0; g < groups; ++g) {
      ahead.ask(g);
      __m256i dot[kRows][2];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) dot[r][0] = dot[r][1] = _mm256_setzero_si256();
      const int16_t* x = rows.pairs[row] + g * kGroup;
#pragma GCC unroll 4
      for (int j = 0; j < 16; ++j) {
        const __m256i w0 = group[g].pairs[j][0];
        const __m256i w1 = group[g].pairs[j][1];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const __m256i value = dup_word(x + r * static_cast<int64_t>(sizeof(rows.pairs[0]) / 2), j);
          dot[r][0] = _mm256_add_epi32(dot[r][0], _mm256_madd_epi16(value, w0));
          dot[r][1] = _mm256_add_epi32(dot[r][1], _mm256_madd_epi16(value, w1));
          pin(dot[r][0]);
          pin(dot[r][1]);
        }
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m256 scale = _mm256_set1_ps(rows.x.scale_at(row + r, g));
        scale_into(acc + r * 16, dot[r][0], scale, group[g].d[0]);
        scale_into(acc + r * 16 + kHalf, dot[r][1], scale, group[g].d[1]);
      }
    }
  }
};

}  // namespace

namespace avx2 {

void add_int8_matmul(KernelTable* table) {
  set_matmul(table, WeightFormat::kQ8G32, matmul_int8<Q8Ops>);
  set_matmul(table, WeightFormat::kQ4_0, matmul_int8<Q4Ops<false>>);
  set_matmul(table, WeightFormat::kQ4_1, matmul_int8<Q4Ops<true>>);
}

}  // namespace avx2
}  // namespace lockstep::kernels
