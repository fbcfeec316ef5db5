// SPDX-License-Identifier: Apache-2.0
// Matmul over the formats of block_layout.h, written over an instruction set's registers V:
//   V::Int, V::Float, V::kColumns (8 or 16 columns a register), V::kStreamRows, V::kBlockRows
//   V::load_bytes, load_f16, widen_u8, widen_i8, and_, or_, add, shl, shr (16-bit lanes), shr32, lookup
//   V::to_float, mul, fma, set1, set1_int, set1_byte, load, store, pin
//   V::dot<kWords, kMaxCode, kSigned>(w, x)   sum of the words' products, exact
//   V::kAnyUnsigned   true if dot takes any unsigned byte; else IQ4 runs with kSigned
// Few rows: planes become bytes in registers as they stream by. Many rows: a block of groups is unpacked into L1 first.
// Include after the lanes header.
#pragma once

#include <type_traits>

#include "kernels/block_layout.h"
#include "kernels/simd/matmul_int8.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kBlockPrefetchBytes = 4096;
constexpr int64_t kStreamChunk = 256;  ///< groups that a stream's side sums cover

/// Sum of 16 bytes as signed numbers.
LOCKSTEP_INLINE int32_t sum16(const int8_t* x) {
  const __m128i unsigned_bytes =
      _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)), _mm_set1_epi8(-128));
  const __m128i sums = _mm_sad_epu8(unsigned_bytes, _mm_setzero_si128());
  return _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_unpackhi_epi64(sums, sums))) - 16 * 128;
}

template <class V, WeightFormat kFormat>
struct BlockOps {
  using Int = typename V::Int;
  using Float = typename V::Float;
  static constexpr BlockLayout kLayout = block_layout(kFormat);
  static constexpr UnitBytes kAt = unit_bytes(kLayout);
  static constexpr int kParts = 16 / V::kColumns;
  static constexpr int kSubs = kLayout.sub_blocks;
  static constexpr int kWords = 8 / kSubs;  ///< registers of a sub-block
  static constexpr bool kHasMin = kLayout.has_min;
  static constexpr bool kSigned = kLayout.is_iq4 && !V::kAnyUnsigned;
  static constexpr int kZero = kLayout.is_iq4 ? (kSigned ? 0 : 128) : kLayout.zero;
  static constexpr int kMaxCode = kLayout.is_iq4 ? 127 : (1 << (kLayout.low_bits + kLayout.high_bits)) - 1;
  static constexpr int64_t kGroupBytes = (kAt.unit + kLayout.unit_groups - 1) / kLayout.unit_groups;
  static constexpr int kStreamRows = V::kStreamRows;
  static constexpr int kBlockRows = V::kBlockRows;

  struct alignas(64) Group {
    Int w[kParts][8];
    Float d[kParts][kSubs], m[kParts][kSubs];
  };
  /// Per sub-block: x_scale * x_sum where the format has minimums, else -zero * x_sum.
  using Side = std::conditional_t<kHasMin, float, int32_t>;
  template <int kRows, int kGroups>
  struct RowsOf {
    QuantizedRows x;
    Side side[kRows][kGroups * kSubs];
  };
  using Rows = RowsOf<kIntRowBlock, kIntGroups>;

  static int64_t panel_size(int64_t groups) {
    return (groups + kLayout.unit_groups - 1) / kLayout.unit_groups * kAt.unit;
  }
  static LOCKSTEP_INLINE const std::byte* unit_of(const std::byte* panel, int64_t g) {
    return panel + g / kLayout.unit_groups * kAt.unit;
  }

  static LOCKSTEP_INLINE Int moved(Int x, int from, int to) {
    if (from == to) return x;
    return from > to ? V::shr(x, from - to) : V::shl(x, to - from);
  }
  static LOCKSTEP_INLINE void unpack_words(const std::byte* group, int part, Int* w) {
    constexpr int kLow = kLayout.low_bits;
    constexpr int kHigh = kLayout.high_bits > 0 ? kLayout.high_bits : 1;
    const std::byte* from = group + part * V::kColumns * 4;
    const Int low_mask8 = V::set1_byte((1 << kLow) - 1);
    const Int high_mask8 = V::set1_byte(((1 << kHigh) - 1) << kLow);
    Int low[kLow], high[kHigh];
#pragma GCC unroll 8
    for (int i = 0; i < kLow; ++i) low[i] = V::load_bytes(from + i * 64);
    if constexpr (kLayout.high_bits > 0) {
#pragma GCC unroll 8
      for (int i = 0; i < kHigh; ++i) high[i] = V::load_bytes(from + (kLow + i) * 64);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      w[i] = V::and_(moved(low[i % kLow], i / kLow * kLow, 0), low_mask8);
      if constexpr (kLayout.high_bits > 0) {
        w[i] = V::or_(w[i], V::and_(moved(high[i % kHigh], i / kHigh * kHigh, kLow), high_mask8));
      }
      if constexpr (kLayout.is_iq4) w[i] = V::template lookup<kZero>(w[i]);
    }
  }
  static LOCKSTEP_INLINE void unpack_scales(const std::byte* unit, int64_t in_unit, int part, Float* d, Float* m) {
    const Float unit_d = V::load_f16(unit + kAt.d + part * V::kColumns * 2);
    Float unit_m = unit_d;
    if constexpr (kHasMin) unit_m = V::load_f16(unit + kAt.d + 2 * kPanelColumns + part * V::kColumns * 2);
#pragma GCC unroll 2
    for (int s = 0; s < kSubs; ++s) {
      const std::byte* at = unit + (in_unit * kSubs + s) * kPanelColumns + part * V::kColumns;
      if constexpr (kLayout.scales == BlockScales::kNone) {
        d[s] = unit_d;
        m[s] = unit_m;
      } else if constexpr (kLayout.scales == BlockScales::kI8) {
        d[s] = V::mul(unit_d, V::to_float(V::widen_i8(at + kAt.scales)));
      } else if constexpr (kLayout.scales == BlockScales::kU8) {
        d[s] = V::mul(unit_d, V::to_float(V::widen_u8(at + kAt.scales)));
        m[s] = V::mul(unit_m, V::to_float(V::widen_u8(at + kAt.mins)));
      } else {
        const Int both = V::widen_u8(at + kAt.scales);
        d[s] = V::mul(unit_d, V::to_float(V::and_(both, V::set1_int(15))));
        m[s] = V::mul(unit_m, V::to_float(V::shr32(both, 4)));
      }
    }
  }
  static LOCKSTEP_INLINE void unpack(const std::byte* panel, int64_t g, Group* out) {
    const std::byte* unit = unit_of(panel, g);
    const int64_t in_unit = g % kLayout.unit_groups;
    for (int part = 0; part < kParts; ++part) {
      unpack_words(unit + in_unit * kAt.group, part, out->w[part]);
      unpack_scales(unit, in_unit, part, out->d[part], out->m[part]);
    }
  }

  template <class Out>
  static void prepare(const QuantizedRows& x, int64_t rows, int64_t groups, Out* out) {
    out->x = x;
    if constexpr (kHasMin || kZero != 0) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < groups * kSubs; ++i) {
          const int32_t sum = kSubs == 1 ? x.sum_at(r, i) : sum16(x.group(r, 0) + i * 16);
          if constexpr (kHasMin) {
            out->side[r][i] = x.scale_at(r, i / kSubs) * static_cast<float>(sum);
          } else {
            out->side[r][i] = -kZero * sum;
          }
        }
      }
    }
  }

  /// sum + the sub-block's share.
  static LOCKSTEP_INLINE Float step(Float sum, const Int* w, Float d, Float m, const int8_t* x, float scale,
                                    const Side* side) {
    Int dot;
    if constexpr (kHasMin || kZero == 0) {
      dot = V::template dot<kWords, kMaxCode, kSigned>(w, x);
    } else {
      dot = V::add(V::template dot<kWords, kMaxCode, kSigned>(w, x), V::set1_int(*side));
    }
    V::pin(dot);
    sum = V::fma(V::to_float(dot), V::mul(V::set1(scale), d), sum);
    if constexpr (kHasMin) sum = V::fma(V::set1(*side), m, sum);
    return sum;
  }

  /// Groups first .. first + groups - 1 of a panel, the rows' groups from `at` on.
  template <int kRows, class StreamRows>
  static LOCKSTEP_INLINE void stream(const StreamRows& rows, int64_t at, const std::byte* panel, int64_t first,
                                     int64_t groups, float* acc) {
    // What comes next is asked for a few lines at a time: a burst would fill the line buffers and stop the loads.
    constexpr int64_t kLines = (kGroupBytes / kParts + 63) / 64;
    const auto* ahead = reinterpret_cast<const char*>(unit_of(panel, first)) + kBlockPrefetchBytes;
    for (int part = 0; part < kParts; ++part) {
      Float sums[kRows];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sums[r] = V::load(acc + r * 16 + part * V::kColumns);
      for (int64_t g = 0; g < groups; ++g) {
        const std::byte* unit = unit_of(panel, first + g);
        const int64_t in_unit = (first + g) % kLayout.unit_groups;
#pragma GCC unroll 8
        for (int64_t i = 0; i < kLines; ++i) _mm_prefetch(ahead + i * 64, _MM_HINT_T0);
        ahead += kGroupBytes / kParts;
        Int w[8];
        Float d[kSubs], m[kSubs];
        unpack_words(unit + in_unit * kAt.group, part, w);
        unpack_scales(unit, in_unit, part, d, m);
#pragma GCC unroll 2
        for (int s = 0; s < kSubs; ++s) {
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) {
            sums[r] = step(sums[r], w + s * kWords, d[s], m[s], rows.x.group(r, at + g) + s * 16,
                           rows.x.scale_at(r, at + g), &rows.side[r][(at + g) * kSubs + s]);
          }
        }
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) V::store(acc + r * 16 + part * V::kColumns, sums[r]);
    }
  }

  template <int kRows>
  static LOCKSTEP_INLINE void block(const Rows& rows, int64_t row, const Group* group, int64_t groups,
                                    GroupsAhead ahead, float* acc) {
    for (int part = 0; part < kParts; ++part) {
      Float sums[kRows];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sums[r] = V::load(acc + r * 16 + part * V::kColumns);
      for (int64_t g = 0; g < groups; ++g) {
        ahead.ask(g);
#pragma GCC unroll 2
        for (int s = 0; s < kSubs; ++s) {
          Int w[kWords];
#pragma GCC unroll 8
          for (int j = 0; j < kWords; ++j) w[j] = group[g].w[part][s * kWords + j];
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) {
            sums[r] = step(sums[r], w, group[g].d[part][s], group[g].m[part][s], rows.x.group(row + r, g) + s * 16,
                           rows.x.scale_at(row + r, g), &rows.side[row + r][g * kSubs + s]);
          }
        }
      }
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) V::store(acc + r * 16 + part * V::kColumns, sums[r]);
    }
  }
};

template <class Ops, int kRows>
void stream_blocks(const MatmulArgs& a) {
  typename Ops::template RowsOf<kRows, kStreamChunk> rows;
  const int64_t groups = num_groups(a.k);
  for (int64_t first = 0; first < groups; first += kStreamChunk) {
    const int64_t count = groups - first < kStreamChunk ? groups - first : kStreamChunk;
    Ops::prepare(rows_at(a, 0, first), kRows, count, &rows);
    for (int64_t column = 0; column < a.n; column += kPanelColumns) {
      const std::byte* panel = a.weights + column / kPanelColumns * Ops::panel_size(groups);
      float* out = a.out + column;
      alignas(64) float acc[kRows * 16];
      for (int64_t r = 0; r < kRows; ++r) {
        store(acc + r * 16, first == 0 ? broadcast(0.0f) : load_columns(out + r * a.out_stride, a.n - column));
      }
      for (int64_t g = 0; g < count; g += kStreamGroups) {
        const int64_t some = count - g < kStreamGroups ? count - g : kStreamGroups;
        Ops::template stream<kRows>(rows, g, panel, first + g, some, acc);
      }
      for (int64_t r = 0; r < kRows; ++r) store_columns(out + r * a.out_stride, a.n - column, load(acc + r * 16));
    }
  }
}

template <class Ops, int kRows>
void stream_some_blocks(const MatmulArgs& a) {
  if (a.m == kRows) {
    stream_blocks<Ops, kRows>(a);
  } else if constexpr (kRows > 1) {
    stream_some_blocks<Ops, kRows - 1>(a);
  }
}

template <class Ops>
void block_blocks(const MatmulArgs& a) {
  typename Ops::Rows rows;
  typename Ops::Group group[kIntGroups];
  const int64_t groups = num_groups(a.k);
  const int64_t panel_size = Ops::panel_size(groups);
  IntBlock b{};
  for (b.row = 0; b.row < a.m; b.row += kIntRowBlock) {
    b.rows = a.m - b.row < kIntRowBlock ? a.m - b.row : kIntRowBlock;
    for (b.group = 0; b.group < groups; b.group += kIntGroups) {
      b.groups = groups - b.group < kIntGroups ? groups - b.group : kIntGroups;
      Ops::prepare(rows_at(a, b.row, b.group), b.rows, b.groups, &rows);
      for (b.column = 0; b.column < a.n; b.column += kPanelColumns) {
        const std::byte* panel = a.weights + b.column / kPanelColumns * panel_size;
        for (int64_t g = 0; g < b.groups; ++g) Ops::unpack(panel, b.group + g, &group[g]);
        const bool more = b.column + kPanelColumns < a.n;
        const std::byte* next =
            more ? Ops::unit_of(panel + panel_size, b.group) : Ops::unit_of(a.weights, b.group + kIntGroups);
        block_tiles<Ops>(a, b, rows, group, next);
      }
    }
  }
}

template <class V, WeightFormat kFormat>
void matmul_blocks(const MatmulArgs& a) {
  using Ops = BlockOps<V, kFormat>;
  if (a.m <= Ops::kStreamRows) {
    stream_some_blocks<Ops, Ops::kStreamRows>(a);
  } else {
    block_blocks<Ops>(a);
  }
}

template <class V, WeightFormat... kFormats>
void set_block_matmuls(KernelTable* table) {
  (set_matmul(table, kFormats, matmul_blocks<V, kFormats>), ...);
}

}  // namespace
}  // namespace lockstep::kernels
