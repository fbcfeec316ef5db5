// SPDX-License-Identifier: Apache-2.0
// Matmul with f32 activations and f32, f16 or bf16 weights over sixteen lanes. Two ways, one order of accumulation:
//  - few rows (decode): weights stream from memory once, widened on the fly, several panels at once while rows are few,
//  so that
//    the chains of fused multiply-adds hide their latency;
//  - many rows (prefill): blocks of x are copied to a padded scratch (rows whose stride is a power of two would share
//  one cache
//    set), panels are widened to f32 in a scratch that stays in L1, and register tiles run over both.
// Partial sums over a block of k wait in `out` as f32, which does not change bits. Include after the lanes header.
#pragma once

#include <cstddef>

#include "kernels/simd/tails.h"
#include "kernels/table.h"

namespace lockstep::kernels {
namespace {

/// load2 gives the lanes of k = 2*j and 2*j + 1; kPairBytes are the bytes of such a pair of 16 columns.
struct F32Weights {
  static constexpr WeightFormat kFormat = WeightFormat::kF32;
  static constexpr int64_t kPairBytes = 128;
  static LOCKSTEP_INLINE void load2(const std::byte* p, Lanes* even, Lanes* odd) {
    const auto* w = reinterpret_cast<const float*>(p);
    *even = load(w);
    *odd = load(w + 16);
  }
  static LOCKSTEP_INLINE Lanes load_last(const std::byte* p) { return load(reinterpret_cast<const float*>(p)); }
};
struct F16Weights {
  static constexpr WeightFormat kFormat = WeightFormat::kF16;
  static constexpr int64_t kPairBytes = 64;
  static LOCKSTEP_INLINE void load2(const std::byte* p, Lanes* even, Lanes* odd) {
    const auto* w = reinterpret_cast<const uint16_t*>(p);
    *even = load_f16(w);
    *odd = load_f16(w + 16);
  }
  static LOCKSTEP_INLINE Lanes load_last(const std::byte* p) { return load_f16(reinterpret_cast<const uint16_t*>(p)); }
};
struct BF16Weights {
  static constexpr WeightFormat kFormat = WeightFormat::kBF16;
  static constexpr int64_t kPairBytes = 64;
  static LOCKSTEP_INLINE void load2(const std::byte* p, Lanes* even, Lanes* odd) {
    load_bf16_pairs(reinterpret_cast<const uint16_t*>(p), even, odd);
  }
  static LOCKSTEP_INLINE Lanes load_last(const std::byte* p) {
    Lanes even, odd;
    load2(p, &even, &odd);
    return even;
  }
};

// --- few rows ---

// How far ahead of the loads weights are prefetched: about a microsecond of one core's share of memory bandwidth.
constexpr int64_t kPrefetchBytes = 4096;

/// kRows rows from `row`, kPanels panels from `panel`, all of k.
template <class Weights, int kRows, int kPanels>
LOCKSTEP_INLINE void stream_panels(const MatmulArgs& a, int64_t row, int64_t panel) {
  const int64_t bytes = panel_bytes(Weights::kFormat, a.k);
  const std::byte* w = a.weights + panel * bytes;
  const float* x = a.x + row * a.x_stride;
  Lanes acc[kRows][kPanels];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) acc[r][p] = broadcast(0.0f);
  }
  int64_t k = 0;
  for (; k + 2 <= a.k; k += 2, w += Weights::kPairBytes) {
    Lanes even[kPanels], odd[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      const std::byte* from = w + p * bytes;
      for (int64_t line = 0; line < Weights::kPairBytes; line += 64)
        _mm_prefetch(reinterpret_cast<const char*>(from + kPrefetchBytes + line), _MM_HINT_T0);
      Weights::load2(from, &even[p], &odd[p]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Lanes x0 = broadcast(x[r * a.x_stride + k]);
      const Lanes x1 = broadcast(x[r * a.x_stride + k + 1]);
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) acc[r][p] = fma(x1, odd[p], fma(x0, even[p], acc[r][p]));
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      if (k < a.k) acc[r][p] = fma(broadcast(x[r * a.x_stride + k]), Weights::load_last(w + p * bytes), acc[r][p]);
      const int64_t column = (panel + p) * kPanelColumns;
      store_columns(a.out + (row + r) * a.out_stride + column, a.n - column, acc[r][p]);
    }
  }
}

template <class Weights, int kRows>
void stream_rows(const MatmulArgs& a) {
  constexpr int kPanels = kMaxAccumulators / kRows > 4 ? 4 : kMaxAccumulators / kRows;
  const int64_t panels = num_panels(a.n);
  int64_t panel = 0;
  for (; panel + kPanels <= panels; panel += kPanels) stream_panels<Weights, kRows, kPanels>(a, 0, panel);
  for (; panel < panels; ++panel) stream_panels<Weights, kRows, 1>(a, 0, panel);
}

// --- many rows ---

struct Block {
  int64_t row, rows;      ///< rows of x in the scratch
  int64_t k, size;        ///< elements of k in the scratch
  int64_t panel, panels;  ///< panels in the scratch
};

constexpr int64_t kRowBlock = 96;
constexpr int64_t kDepth = 256;  // elements of k: two widened panels take 32 KB, and less would reload sums too often
constexpr int64_t kXStride = kDepth + 16;  // a line of padding after each row
constexpr int64_t kPanelFloats = kDepth * kPanelColumns;

struct FloatScratch {
  alignas(64) float x[kRowBlock * kXStride];
  alignas(64) float w[kTilePanels * kPanelFloats];
};

LOCKSTEP_INLINE void copy_rows(const MatmulArgs& a, const Block& b, float* to) {
  for (int64_t r = 0; r < b.rows; ++r) {
    const float* from = a.x + (b.row + r) * a.x_stride + b.k;
    int64_t i = 0;
    for (; i + 16 <= b.size; i += 16) store(to + r * kXStride + i, load(from + i));
    for (; i < b.size; ++i) to[r * kXStride + i] = from[i];
  }
}

template <class Weights>
LOCKSTEP_INLINE void widen_panel(const std::byte* w, int64_t size, float* to) {
  int64_t k = 0;
  for (; k + 2 <= size; k += 2, w += Weights::kPairBytes) {
    Lanes even, odd;
    Weights::load2(w, &even, &odd);
    store(to + k * kPanelColumns, even);
    store(to + (k + 1) * kPanelColumns, odd);
  }
  if (k < size) store(to + k * kPanelColumns, Weights::load_last(w));
}

/// Where the packed weights that come next lie: every tile asks for its share of them while it computes, so that memory
/// is never idle. `step` bytes of each panel are asked for per pair of k.
struct Ahead {
  const char* from;
  int64_t panel_bytes;
  int64_t step;
};

/// A register tile: kRows rows of x, kPanels panels, `size` steps of k.
template <int kRows, int kPanels>
LOCKSTEP_INLINE void run_tile(const float* x, const float* w, int64_t size, bool first, int64_t columns, Ahead ahead,
                              float* out, int64_t out_stride) {
  Lanes acc[kRows][kPanels];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      acc[r][p] =
          first ? broadcast(0.0f) : load_columns(out + r * out_stride + p * kPanelColumns, columns - p * kPanelColumns);
    }
  }
  const auto multiply = [&](int64_t k) __attribute__((always_inline)) {
    Lanes weights[kPanels];
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) weights[p] = load(w + p * kPanelFloats + k * kPanelColumns);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Lanes value = broadcast(x[r * kXStride + k]);
#pragma GCC unroll 16
      for (int p = 0; p < kPanels; ++p) acc[r][p] = fma(value, weights[p], acc[r][p]);
    }
  };
  int64_t k = 0;
  for (; k + 2 <= size; k += 2, ahead.from += ahead.step) {
#pragma GCC unroll 2
    for (int p = 0; p < kPanels; ++p) _mm_prefetch(ahead.from + p * ahead.panel_bytes, _MM_HINT_T1);
    multiply(k);
    multiply(k + 1);
  }
  if (k < size) multiply(k);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int p = 0; p < kPanels; ++p) {
      store_columns(out + r * out_stride + p * kPanelColumns, columns - p * kPanelColumns, acc[r][p]);
    }
  }
}

/// The tile for `rows` <= kRows rows of the scratch from `row`.
template <int kRows, int kPanels>
void run_tile_of(const MatmulArgs& a, const Block& b, const FloatScratch& s, int64_t row, int64_t rows,
                 const Ahead& ahead) {
  if (rows == kRows) {
    const int64_t column = b.panel * kPanelColumns;
    run_tile<kRows, kPanels>(s.x + row * kXStride, s.w, b.size, b.k == 0, a.n - column, ahead,
                             a.out + (b.row + row) * a.out_stride + column, a.out_stride);
  } else if constexpr (kRows > 1) {
    run_tile_of<kRows - 1, kPanels>(a, b, s, row, rows, ahead);
  }
}

/// All rows of the block, in tiles as even as can be: 8 rows are 4 + 4, not 6 + 2.
template <int kPanels>
void run_tiles(const MatmulArgs& a, const Block& b, const FloatScratch& s, const std::byte* next, int64_t next_bytes,
               int64_t panel_stride) {
  const int64_t tiles = (b.rows + kTileRows - 1) / kTileRows;
  const int64_t share = next_bytes / tiles;
  int64_t row = 0;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t rows = (b.rows - row + tiles - tile - 1) / (tiles - tile);
    const Ahead ahead{reinterpret_cast<const char*>(next) + tile * share, panel_stride, share * 2 / (b.size + 1)};
    run_tile_of<kTileRows, kPanels>(a, b, s, row, rows, ahead);
    row += rows;
  }
}

template <class Weights>
void matmul_blocked(const MatmulArgs& a) {
  FloatScratch scratch;
  const int64_t bytes = panel_bytes(Weights::kFormat, a.k);
  const int64_t panels = num_panels(a.n);
  Block b{};
  for (b.row = 0; b.row < a.m; b.row += kRowBlock) {
    b.rows = a.m - b.row < kRowBlock ? a.m - b.row : kRowBlock;
    for (b.k = 0; b.k < a.k; b.k += kDepth) {
      b.size = a.k - b.k < kDepth ? a.k - b.k : kDepth;
      copy_rows(a, b, scratch.x);
      for (b.panel = 0; b.panel < panels; b.panel += kTilePanels) {
        b.panels = panels - b.panel < kTilePanels ? panels - b.panel : kTilePanels;
        for (int64_t p = 0; p < b.panels; ++p) {
          const std::byte* from = a.weights + (b.panel + p) * bytes + b.k / 2 * Weights::kPairBytes;
          widen_panel<Weights>(from, b.size, scratch.w + p * kPanelFloats);
        }
        // Next is the same stretch of k in the next panels, or the next stretch of the first ones.
        const bool more = b.panel + kTilePanels < panels;
        const std::byte* next = a.weights + (more ? (b.panel + kTilePanels) * bytes + b.k / 2 * Weights::kPairBytes
                                                  : (b.k + kDepth) / 2 * Weights::kPairBytes);
        const int64_t next_bytes = b.size / 2 * Weights::kPairBytes;
        if (b.panels == kTilePanels) {
          run_tiles<kTilePanels>(a, b, scratch, next, next_bytes, bytes);
        } else {
          run_tiles<1>(a, b, scratch, next, next_bytes, bytes);
        }
      }
    }
  }
}

/// Dispatches to the streaming tile for a.m rows, kRows at most.
template <class Weights, int kRows>
void stream_some_rows(const MatmulArgs& a) {
  if (a.m == kRows) {
    stream_rows<Weights, kRows>(a);
  } else if constexpr (kRows > 1) {
    stream_some_rows<Weights, kRows - 1>(a);
  }
}

template <class Weights>
void matmul_float(const MatmulArgs& a) {
  if (a.m <= kTileRows) {
    stream_some_rows<Weights, kTileRows>(a);
  } else {
    matmul_blocked<Weights>(a);
  }
}

}  // namespace
}  // namespace lockstep::kernels
