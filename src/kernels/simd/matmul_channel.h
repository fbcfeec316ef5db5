// SPDX-License-Identifier: Apache-2.0
// Driver of the matmuls with one weight scale per output channel. An instruction set's Ops has one tile, for few rows
// and for many; it decodes the weights of 256 elements of k from the packed panel, which stay in L1 from tile to tile:
//   Ops::kRows                             largest kRows of the tile
//   Ops::Acc                               int32_t (w8a16) or float (w8a8)
//   Ops::tile<kRows>(a, row, quad, w, quads, acc)   quads of k from `quad` on, whose packed weights start at w
// acc is [kRows][16] sums, dense. Include after the lanes header.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/simd/tails.h"
#include "kernels/table.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kChannelRowBlock = 96;
constexpr int64_t kChannelBlockQuads = 64;  ///< four groups of 64; 8192 is a multiple
constexpr int64_t kGroupQuads = kChannelGroup / 4;
constexpr int64_t kExactQuads = kExactElements / 4;

/// Bytes ahead of the block in work that are asked for.
constexpr int64_t kChannelPrefetchBytes = 4096;

/// Four bytes of activations as one word, for a broadcast.
LOCKSTEP_INLINE int32_t activation_word(const void* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return word;
}

/// The tile for `count` <= kRows rows from `row`.
template <class Ops, int kRows>
void channel_tile(const MatmulArgs& a, int64_t row, int64_t count, int64_t quad, const std::byte* w, int64_t quads,
                  typename Ops::Acc* acc) {
  if (count == kRows) {
    Ops::template tile<kRows>(a, row, quad, w, quads, acc);
  } else if constexpr (kRows > 1) {
    channel_tile<Ops, kRows - 1>(a, row, count, quad, w, quads, acc);
  }
}

/// All rows of a block, in tiles as even as can be.
template <class Ops>
void channel_tiles(const MatmulArgs& a, int64_t first, int64_t rows, int64_t quad, const std::byte* w, int64_t quads,
                   typename Ops::Acc* acc) {
  const int64_t tiles = (rows + Ops::kRows - 1) / Ops::kRows;
  int64_t row = 0;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t count = (rows - row + tiles - tile - 1) / (tiles - tile);
    channel_tile<Ops, Ops::kRows>(a, first + row, count, quad, w, quads, acc + row * kPanelColumns);
    row += count;
  }
}

/// total = (first ? 0 : total) + float(acc), acc = 0.
LOCKSTEP_INLINE void add_exact_block(int32_t* acc, int64_t rows, bool first, float* total) {
  for (int64_t i = 0; i < rows * kPanelColumns; i += kPanelColumns) {
    const Lanes sum = to_float(load_ints(acc + i));
    store(total + i, first ? sum : add(load(total + i), sum));
  }
  __builtin_memset(acc, 0, static_cast<size_t>(rows * kPanelColumns) * sizeof(int32_t));
}

/// One panel times the rows of a block.
template <class Ops>
void channel_panel(const MatmulArgs& a, int64_t row, int64_t rows, int64_t column, const std::byte* panel) {
  constexpr bool kIsInteger = std::is_same_v<typename Ops::Acc, int32_t>;
  alignas(64) typename Ops::Acc acc[kChannelRowBlock * kPanelColumns];
  alignas(64) float total[kIsInteger ? kChannelRowBlock * kPanelColumns : 16];
  __builtin_memset(acc, 0, static_cast<size_t>(rows * kPanelColumns) * 4);
  const int64_t quads = channel_quads(a.k);
  for (int64_t quad = 0; quad < quads; quad += kChannelBlockQuads) {
    const int64_t count = quads - quad < kChannelBlockQuads ? quads - quad : kChannelBlockQuads;
    const std::byte* w = panel + quad * kQuadBytes;
    for (int64_t i = 0; i < count; ++i) {
      _mm_prefetch(reinterpret_cast<const char*>(w + kChannelPrefetchBytes + i * kQuadBytes), _MM_HINT_T0);
    }
    channel_tiles<Ops>(a, row, rows, quad, w, count, acc);
    const int64_t end = quad + count;
    if constexpr (kIsInteger) {
      if (end % kExactQuads == 0 || end == quads) add_exact_block(acc, rows, end <= kExactQuads, total);
    }
  }
  const Lanes d = load(reinterpret_cast<const float*>(panel + quads * kQuadBytes));
  for (int64_t r = 0; r < rows; ++r) {
    float* out = a.out + (row + r) * a.out_stride + column;
    if constexpr (kIsInteger) {
      const Lanes scale = mul(broadcast(a.x_scale[(row + r) * a.group_stride]), d);
      store_columns(out, a.n - column, mul(load(total + r * kPanelColumns), scale));
    } else {
      store_columns(out, a.n - column, mul(load(acc + r * kPanelColumns), d));
    }
  }
}

template <class Ops>
void matmul_channel(const MatmulArgs& a) {
  const int64_t panel_size = channel_panel_bytes(a.k);
  for (int64_t row = 0; row < a.m; row += kChannelRowBlock) {
    const int64_t rows = a.m - row < kChannelRowBlock ? a.m - row : kChannelRowBlock;
    for (int64_t column = 0; column < a.n; column += kPanelColumns) {
      channel_panel<Ops>(a, row, rows, column, a.weights + column / kPanelColumns * panel_size);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
