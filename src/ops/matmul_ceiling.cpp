// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul_ceiling.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "ops/matmul.h"

namespace lockstep::ops {
namespace {

constexpr int64_t kCallsAPiece = 4;
constexpr std::chrono::milliseconds kBudget{30};

struct Tile {
  int64_t columns, rows;
};
/// A few panels by few or many rows: between 16 KB and 512 KB of operands at usual sizes of k.
constexpr Tile kTiles[] = {{16, 24}, {64, 24}, {64, 96}};

struct Operands {
  std::vector<float> x, out;
  QuantizedRows quantized;
};

Expected<Operands> make_operands(const Context& ctx, const Matrix& w, int64_t rows) {
  Operands operands;
  operands.x.resize(static_cast<size_t>(rows * w.k()));
  for (size_t i = 0; i < operands.x.size(); ++i) operands.x[i] = static_cast<float>(i % 17) * 0.125f - 1.0f;
  LOCKSTEP_ASSIGN_OR_RETURN(operands.quantized, QuantizedRows::create(rows, w.k()));
  if (kernels::has_rounded_activations(w.format())) {
    quantize_rows(ctx, kernels::activations_of(w.format()), {operands.x.data(), {rows, w.k()}}, operands.quantized, {});
  }
  return operands;
}

double rate_of(const Context& ctx, const Matrix& w, Operands& operands, Tile tile) {
  const auto threads = static_cast<int64_t>(ctx.pool->size());
  const int64_t out_size = tile.rows * tile.columns;
  operands.out.resize(static_cast<size_t>(threads * out_size));
  const int64_t pieces = 8 * threads;
  const auto start = std::chrono::steady_clock::now();
  ctx.pool->parallel_for(pieces, [&](int64_t, int worker) {
    kernels::MatmulArgs args = {};
    args.weights = w.panel(0);
    args.n = tile.columns;
    args.k = w.k();
    args.m = tile.rows;
    if (kernels::has_rounded_activations(w.format())) {
      operands.quantized.bind(w.k(), 0, args);
    } else {
      args.x = operands.x.data();
      args.x_stride = w.k();
    }
    args.out = operands.out.data() + worker * out_size;
    args.out_stride = tile.columns;
    for (int64_t call = 0; call < kCallsAPiece; ++call) ctx.kernels->matmul[static_cast<size_t>(w.format())](args);
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return 2.0 * static_cast<double>(pieces * kCallsAPiece * out_size * w.k()) / seconds * 1e-9;
}

}  // namespace

Expected<double> measure_matmul_ceiling(const Context& ctx, const Matrix& w) {
  double best = 0;
  for (Tile tile : kTiles) {
    tile.columns = std::min(tile.columns, w.n());
    LOCKSTEP_ASSIGN_OR_RETURN(Operands operands, make_operands(ctx, w, tile.rows));
    const auto deadline = std::chrono::steady_clock::now() + kBudget;
    do {
      best = std::max(best, rate_of(ctx, w, operands, tile));
    } while (std::chrono::steady_clock::now() < deadline);
  }
  return best;
}

}  // namespace lockstep::ops
