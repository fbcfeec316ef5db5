// SPDX-License-Identifier: Apache-2.0
// Matmul with bf16 weights and bf16 activations over sixteen lanes, by pairs of k. An instruction set's Ops has
//   Ops::Pair                   how a pair of activations waits in the scratch; Ops::pair(p) makes one from two bf16
//   Ops::Weights, Ops::Values   registers of a pair: of 16 columns, of one row (the same in all lanes)
//   Ops::weights(p), Ops::values(pair), Ops::dot(values, weights, acc)
//   Ops::kRows, Ops::kPanels    the tile; Ops::kWidePanels: panels of the tile for up to kWideRows rows
// Blocks of x are copied to a scratch; panels are read as they are packed. Partial sums over a block of k wait in
// `out`, which does not change bits. Include after the lanes header.
#pragma once

#include <cstddef>

#include "kernels/flush_denormals.h"
#include "kernels/simd/tails.h"
#include "kernels/table.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kDotRowBlock = 96;
constexpr int64_t kDotPairs = 128;             ///< of k in a block: two panels take 16 KB
constexpr int64_t kDotStride = kDotPairs + 8;  ///< rows whose stride is a power of two would share one cache set
constexpr int64_t kDotPairBytes = 4 * kPanelColumns;
constexpr int64_t kDotPrefetchBytes = 4096;

/// By two fused multiply-adds, which are the definition, under FlushDenormals.
struct EmulatedDot {
  struct Pair {
    float even, odd;
  };
  struct Weights {
    Lanes even, odd;
  };
  using Values = Weights;
  static LOCKSTEP_INLINE Pair pair(const uint16_t* p) {
    return {__builtin_bit_cast(float, static_cast<uint32_t>(p[0]) << 16),
            __builtin_bit_cast(float, static_cast<uint32_t>(p[1]) << 16)};
  }
  static LOCKSTEP_INLINE Weights weights(const std::byte* p) {
    Weights out;
    load_bf16_pairs(reinterpret_cast<const uint16_t*>(p), &out.even, &out.odd);
    return out;
  }
  static LOCKSTEP_INLINE Values values(const Pair& x) { return {broadcast(x.even), broadcast(x.odd)}; }
  static LOCKSTEP_INLINE Lanes dot(const Values& x, const Weights& w, Lanes acc) {
    return fma(x.even, w.even, fma(x.odd, w.odd, acc));
  }
};

/// A block of x, and where it meets the weights.
struct DotBlock {
  int64_t row, rows;    ///< of x and out
  int64_t pair, pairs;  ///< of k
};

/// kRows rows of the scratch times kPanels panels from `column` on.
template <class Ops, int kRows, int kPanels>
LOCKSTEP_INLINE void dot_tile(const MatmulArgs& a, const DotBlock& b, const typename Ops::Pair* x, int64_t row,
                              int64_t column) {
  const int64_t bytes = bf16_pairs(a.k) * kDotPairBytes;
  const std::byte* w = a.weights + column / kPanelColumns * bytes + b.pair * kDotPairBytes;
  float* out = a.out + (b.row + row) * a.out_stride + column;
  x += row * kDotStride;
  Lanes acc[kRows][kPanels];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      acc[r][p] = b.pair == 0
                      ? broadcast(0.0f)
                      : load_columns(out + r * a.out_stride + p * kPanelColumns, a.n - column - p * kPanelColumns);
    }
  }
  for (int64_t i = 0; i < b.pairs; ++i, w += kDotPairBytes) {
    typename Ops::Weights weights[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      _mm_prefetch(reinterpret_cast<const char*>(w + p * bytes + kDotPrefetchBytes), _MM_HINT_T0);
      weights[p] = Ops::weights(w + p * bytes);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const typename Ops::Values values = Ops::values(x[r * kDotStride + i]);
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) acc[r][p] = Ops::dot(values, weights[p], acc[r][p]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      store_columns(out + r * a.out_stride + p * kPanelColumns, a.n - column - p * kPanelColumns, acc[r][p]);
    }
  }
}

/// The tile for `count` <= kRows rows.
template <class Ops, int kRows, int kPanels>
void dot_rows(const MatmulArgs& a, const DotBlock& b, const typename Ops::Pair* x, int64_t row, int64_t count,
              int64_t column) {
  if (count == kRows) {
    dot_tile<Ops, kRows, kPanels>(a, b, x, row, column);
  } else if constexpr (kRows > 1) {
    dot_rows<Ops, kRows - 1, kPanels>(a, b, x, row, count, column);
  }
}

/// All panels from `column` on that come in groups of kPanels, all rows of the block, in tiles as even as can be.
/// Returns the first column that is left.
template <class Ops, int kRows, int kPanels>
int64_t dot_panels(const MatmulArgs& a, const DotBlock& b, const typename Ops::Pair* x, int64_t column) {
  const int64_t tiles = (b.rows + kRows - 1) / kRows;
  for (; column + (kPanels - 1) * kPanelColumns < a.n; column += kPanels * kPanelColumns) {
    int64_t row = 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t count = (b.rows - row + tiles - tile - 1) / (tiles - tile);
      dot_rows<Ops, kRows, kPanels>(a, b, x, row, count, column);
      row += count;
    }
  }
  return column;
}

template <class Ops>
[[gnu::noinline]] void matmul_pairs(const MatmulArgs& a) {
  alignas(64) typename Ops::Pair scratch[kDotRowBlock * kDotStride];
  DotBlock b{};
  for (b.row = 0; b.row < a.m; b.row += kDotRowBlock) {
    b.rows = a.m - b.row < kDotRowBlock ? a.m - b.row : kDotRowBlock;
    for (b.pair = 0; b.pair < bf16_pairs(a.k); b.pair += kDotPairs) {
      const int64_t left = bf16_pairs(a.k) - b.pair;
      b.pairs = left < kDotPairs ? left : kDotPairs;
      for (int64_t r = 0; r < b.rows; ++r) {
        const uint16_t* from = a.xb16 + (b.row + r) * a.xq_stride + b.pair * 2;
        for (int64_t i = 0; i < b.pairs; ++i) scratch[r * kDotStride + i] = Ops::pair(from + i * 2);
      }
      int64_t column = 0;
      if (b.rows <= Ops::kWideRows) column = dot_panels<Ops, Ops::kWideRows, Ops::kWidePanels>(a, b, scratch, 0);
      column = dot_panels<Ops, Ops::kRows, Ops::kPanels>(a, b, scratch, column);
      if constexpr (Ops::kPanels > 1) dot_panels<Ops, Ops::kRows, 1>(a, b, scratch, column);
    }
  }
}

template <class Ops>
void matmul_bf16dot(const MatmulArgs& a) {
  const FlushDenormals flush;
  matmul_pairs<Ops>(a);
}

bool round_row_bf16(const float* x, int64_t k, uint16_t* out) {
  const int64_t padded = num_channel_groups(k) * kChannelGroup;
  bool finite = true;
  for (int64_t i = 0; i < padded; i += kLanes) {
    const Lanes v = i + kLanes <= k ? load(x + i) : (i < k ? load_first(x + i, k - i) : broadcast(0.0f));
    store_bf16(out + i, v);
    const Lanes rounded = load_bf16(out + i);
    finite &= largest_magnitude_bits(rounded, rounded) < 0x7f800000u;
  }
  return finite;
}

}  // namespace
}  // namespace lockstep::kernels
