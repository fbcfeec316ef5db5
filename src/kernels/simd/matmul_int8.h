// SPDX-License-Identifier: Apache-2.0
// Driver of the matmuls with int8 activations. An instruction set's Ops has the tiles:
//   Ops::kGroupBytes                       bytes of a packed group
//   Ops::kStreamRows, Ops::kBlockRows      largest kRows of the two tiles
//   Ops::kAskingRows                       stream tiles of so many rows and more prefetch by themselves
//   Ops::stream<kRows>(x, group, groups, acc)   few rows: weights decoded from the packed panel as they stream by
//   Ops::Group, Ops::unpack(group, *out)   a group decoded for the many-row tile, kept in L1
//   Ops::Rows, Ops::prepare(x, rows, groups, *rows_out)   rows made ready for it
//   Ops::block<kRows>(rows, row, group, groups, ahead, acc)
// acc is [kRows][16] partial sums, dense. Include after the lanes header.
#pragma once

#include <cstddef>

#include "kernels/simd/tails.h"
#include "kernels/table.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kIntRowBlock = 96;
constexpr int64_t kIntGroups = 16;    ///< groups of a block: 512 elements of k
constexpr int64_t kStreamGroups = 8;  ///< groups that a stream tile runs over before the next half of the columns

/// Quantised rows from some row and group on.
struct QuantizedRows {
  const int8_t* q;
  int64_t q_stride;
  const float* scale;
  const int32_t* sum;
  int64_t group_stride;

  LOCKSTEP_INLINE const int8_t* group(int64_t row, int64_t g) const { return q + row * q_stride + g * kGroup; }
  LOCKSTEP_INLINE float scale_at(int64_t row, int64_t g) const { return scale[row * group_stride + g]; }
  LOCKSTEP_INLINE int32_t sum_at(int64_t row, int64_t g) const { return sum[row * group_stride + g]; }
};

LOCKSTEP_INLINE QuantizedRows rows_at(const MatmulArgs& a, int64_t row, int64_t g) {
  const int64_t offset = row * a.group_stride + g;
  return {a.xq + row * a.xq_stride + g * kGroup, a.xq_stride, a.x_scale + offset, a.x_sum + offset, a.group_stride};
}

/// Four activations as one word, for a broadcast.
LOCKSTEP_INLINE int32_t word_at(const void* p, int64_t index) {
  int32_t word;
  __builtin_memcpy(&word, static_cast<const char*>(p) + index * 4, 4);
  return word;
}

constexpr int64_t kIntPrefetchBytes = 4096;
/// Asks for kBytes of the weights that come kIntPrefetchBytes later. Tiles that calculate long enough do it group by
/// group (Ops::kAskingRows rows and more): a burst would fill the line buffers and stop their own loads.
template <int64_t kBytes>
LOCKSTEP_INLINE void ask_ahead(const std::byte* from) {
#pragma GCC unroll 16
  for (int64_t byte = 0; byte < kBytes; byte += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(from + kIntPrefetchBytes + byte), _MM_HINT_T0);
  }
}

template <class Ops, int kRows>
void stream_int8(const MatmulArgs& a, int64_t row) {
  const int64_t groups = num_groups(a.k);
  const int64_t panel_size = groups * Ops::kGroupBytes;
  for (int64_t column = 0; column < a.n; column += kPanelColumns) {
    const std::byte* panel = a.weights + column / kPanelColumns * panel_size;
    alignas(64) float acc[kRows * 16] = {};
    for (int64_t g = 0; g < groups; g += kStreamGroups) {
      const int64_t count = groups - g < kStreamGroups ? groups - g : kStreamGroups;
      const std::byte* from = panel + g * Ops::kGroupBytes;
      if constexpr (kRows < Ops::kAskingRows) {
        for (int64_t byte = 0; byte < count * Ops::kGroupBytes; byte += 64) {
          _mm_prefetch(reinterpret_cast<const char*>(from + kIntPrefetchBytes + byte), _MM_HINT_T0);
        }
      }
      Ops::template stream<kRows>(rows_at(a, row, g), from, count, acc);
    }
    for (int64_t r = 0; r < kRows; ++r) {
      store_columns(a.out + (row + r) * a.out_stride + column, a.n - column, load(acc + r * 16));
    }
  }
}

struct IntBlock {
  int64_t row, rows;
  int64_t group, groups;
  int64_t column;
};

/// Packed weights that come next: every tile asks for its share of them, some lines a group, so that memory is never
/// idle.
struct GroupsAhead {
  const char* from;
  int64_t lines;  ///< per group

  LOCKSTEP_INLINE void ask(int64_t g) const {
    const char* first = from + g * lines * 64;
    for (int64_t i = 0; i < lines; ++i) _mm_prefetch(first + i * 64, _MM_HINT_T1);
  }
};

template <class Ops, int kRows>
LOCKSTEP_INLINE void block_tile(const MatmulArgs& a, const IntBlock& b, const typename Ops::Rows& rows,
                                const typename Ops::Group* w, int64_t row, GroupsAhead ahead) {
  float* out = a.out + (b.row + row) * a.out_stride + b.column;
  const int64_t columns = a.n - b.column;
  alignas(64) float acc[kRows * 16];
  for (int64_t r = 0; r < kRows; ++r)
    store(acc + r * 16, b.group == 0 ? broadcast(0.0f) : load_columns(out + r * a.out_stride, columns));
  Ops::template block<kRows>(rows, row, w, b.groups, ahead, acc);
  for (int64_t r = 0; r < kRows; ++r) store_columns(out + r * a.out_stride, columns, load(acc + r * 16));
}

/// The tile for `count` <= kRows rows from `row`.
template <class Ops, int kRows>
void block_tile_of(const MatmulArgs& a, const IntBlock& b, const typename Ops::Rows& rows, const typename Ops::Group* w,
                   int64_t row, int64_t count, GroupsAhead ahead) {
  if (count == kRows) {
    block_tile<Ops, kRows>(a, b, rows, w, row, ahead);
  } else if constexpr (kRows > 1) {
    block_tile_of<Ops, kRows - 1>(a, b, rows, w, row, count, ahead);
  }
}

/// All rows of the block, in tiles as even as can be.
template <class Ops>
void block_tiles(const MatmulArgs& a, const IntBlock& b, const typename Ops::Rows& rows, const typename Ops::Group* w,
                 const std::byte* next) {
  const int64_t tiles = (b.rows + Ops::kBlockRows - 1) / Ops::kBlockRows;
  const int64_t lines = (Ops::kGroupBytes + 64 * tiles - 1) / (64 * tiles);
  int64_t row = 0;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t count = (b.rows - row + tiles - tile - 1) / (tiles - tile);
    const int64_t first = tile * lines * b.groups * 64;
    const bool wanted = first < b.groups * Ops::kGroupBytes;
    block_tile_of<Ops, Ops::kBlockRows>(a, b, rows, w, row, count,
                                        {reinterpret_cast<const char*>(next) + first, wanted ? lines : 0});
    row += count;
  }
}

template <class Ops>
void block_int8(const MatmulArgs& a) {
  typename Ops::Rows rows;
  typename Ops::Group group[kIntGroups];
  const int64_t groups = num_groups(a.k);
  IntBlock b{};
  for (b.row = 0; b.row < a.m; b.row += kIntRowBlock) {
    b.rows = a.m - b.row < kIntRowBlock ? a.m - b.row : kIntRowBlock;
    for (b.group = 0; b.group < groups; b.group += kIntGroups) {
      b.groups = groups - b.group < kIntGroups ? groups - b.group : kIntGroups;
      Ops::prepare(rows_at(a, b.row, b.group), b.rows, b.groups, &rows);
      for (b.column = 0; b.column < a.n; b.column += kPanelColumns) {
        const std::byte* from = a.weights + (b.column / kPanelColumns * groups + b.group) * Ops::kGroupBytes;
        for (int64_t g = 0; g < b.groups; ++g) Ops::unpack(from + g * Ops::kGroupBytes, &group[g]);
        const bool more = b.column + kPanelColumns < a.n;
        const std::byte* next =
            more ? from + groups * Ops::kGroupBytes : a.weights + (b.group + kIntGroups) * Ops::kGroupBytes;
        block_tiles<Ops>(a, b, rows, group, next);
      }
    }
  }
}

template <class Ops, int kRows>
void stream_some(const MatmulArgs& a) {
  if (a.m == kRows) {
    stream_int8<Ops, kRows>(a, 0);
  } else if constexpr (kRows > 1) {
    stream_some<Ops, kRows - 1>(a);
  }
}

template <class Ops>
void matmul_int8(const MatmulArgs& a) {
  if (a.m <= Ops::kStreamRows) {
    stream_some<Ops, Ops::kStreamRows>(a);
  } else {
    block_int8<Ops>(a);
  }
}

}  // namespace
}  // namespace lockstep::kernels
