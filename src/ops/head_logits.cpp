// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "ops/head_scratch.h"

namespace lockstep::ops {
namespace {

kernels::MatmulArgs matmul_args(const HeadPass& pass, int64_t row, int64_t rows, int64_t column, int64_t columns,
                                float* out) {
  kernels::MatmulArgs args = {};
  args.weights = pass.head.panel(column / kernels::kPanelColumns);
  args.n = columns;
  args.k = pass.head.k();
  args.m = rows;
  if (kernels::has_rounded_activations(pass.head.format())) {
    pass.quantized.bind(pass.head.k(), row, args);
  } else {
    args.x = pass.hidden.row(row);
    args.x_stride = pass.hidden.stride(0);
  }
  args.out = out;
  args.out_stride = kTileColumns;
  return args;
}

void run_tile(const HeadPass& pass, int64_t tile, float* buffer, View<float> logits_out) {
  const HeadScratch::Impl& scratch = pass.scratch;
  const int64_t first = tile * kTileColumns;
  const int64_t columns = std::min(kTileColumns, scratch.vocab - first);
  kernels::ArgMax* best = scratch.tile_best.as<kernels::ArgMax>() + tile * scratch.max_rows;
  for (int64_t block = 0; block < pass.rows; block += kTileRows) {
    const int64_t rows = std::min(kTileRows, pass.rows - block);
    pass.ctx.kernels->matmul[static_cast<size_t>(pass.head.format())](
        matmul_args(pass, block, rows, first, columns, buffer));
    for (int64_t i = 0; i < rows; ++i) {
      const float* logits = buffer + i * kTileColumns;
      const auto bytes = static_cast<size_t>(columns) * sizeof(float);
      kernels::ArgMax& largest = best[block + i];
      largest = pass.ctx.kernels->argmax(logits, columns);
      largest.index += static_cast<int32_t>(first);
      const int32_t slot = scratch.row(block + i).slot;
      if (slot >= 0) std::memcpy(scratch.logits_row(slot) + first, logits, bytes);
      if (!logits_out.empty()) std::memcpy(logits_out.row(block + i) + first, logits, bytes);
    }
  }
}

/// Merges the tiles' maxima ascending, so that the smallest id wins ties.
void merge_best(const HeadScratch::Impl& scratch, int64_t r) {
  const kernels::ArgMax* best = scratch.tile_best.as<const kernels::ArgMax>() + r;
  kernels::ArgMax largest = best[0];
  bool finite = scratch.row_ok.as<int32_t>()[r] != 0 && largest.finite;
  for (int64_t tile = 1; tile < scratch.tiles; ++tile) {
    const kernels::ArgMax& other = best[tile * scratch.max_rows];
    finite = finite && other.finite;
    if (other.value > largest.value) largest = other;
  }
  RowState& row = scratch.row(r);
  row.finite = finite;
  row.id = finite ? largest.index : 0;
  row.raw_max = row.max = largest.value;
}

}  // namespace

void compute_logits(const HeadPass& pass, View<float> logits_out) {
  const HeadScratch::Impl& scratch = pass.scratch;
  LOCKSTEP_CHECK(pass.ctx.pool->size() <= scratch.threads);
  std::fill_n(scratch.row_ok.as<int32_t>(), pass.rows, 1);
  if (kernels::has_rounded_activations(pass.head.format())) {
    // A row that is not finite becomes zeros here and its logits look fine: row_ok remembers.
    quantize_rows(pass.ctx, kernels::activations_of(pass.head.format()), pass.hidden, pass.quantized,
                  View<int32_t>(scratch.row_ok.as<int32_t>(), {pass.rows}));
  }
  pass.ctx.pool->parallel_for(scratch.tiles, [&](int64_t tile, int worker) {
    run_tile(pass, tile, scratch.tile_logits.as<float>() + worker * kTileRows * kTileColumns, logits_out);
  });
  for (int64_t r = 0; r < pass.rows; ++r) {
    merge_best(scratch, r);
    if (logits_out.empty()) continue;
    std::fill(logits_out.row(r) + scratch.vocab, logits_out.row(r) + logits_out.extent(1),
              -std::numeric_limits<float>::infinity());
  }
}

float compute_logit(const HeadPass& pass, int64_t row, int32_t id) {
  const int64_t column = id / kernels::kPanelColumns * kernels::kPanelColumns;
  float panel[kernels::kPanelColumns];
  const int64_t columns = std::min(kernels::kPanelColumns, pass.scratch.vocab - column);
  pass.ctx.kernels->matmul[static_cast<size_t>(pass.head.format())](matmul_args(pass, row, 1, column, columns, panel));
  return panel[id - column];
}

}  // namespace lockstep::ops
