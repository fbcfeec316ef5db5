// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

#include <algorithm>

#include "base/check.h"
#include "ops/split.h"

namespace lockstep::ops {
namespace {

using kernels::Activations;

constexpr int64_t kQuantizeGrain = 16384;  // elements, about 5 us

/// How [m, n] outputs are cut. A function of the shapes only.
struct Cut {
  int64_t columns;  ///< a multiple of a panel's 16
  int64_t rows;
};

int64_t activation_bytes(Activations kind) {
  if (kind == Activations::kF32) return 4;
  return kind == Activations::kInt16 || kind == Activations::kBF16 ? 2 : 1;
}

Cut choose_cut(const Matrix& w, int64_t m) {
  // Weights of a piece: enough to hide a hand-over (about 15 us of memory traffic), small enough to share out evenly
  // and to stay in half of a core's second-level cache (512 KB on Zen 3, 1 MB on Zen 4) while the rows pass by.
  constexpr int64_t kPieceBytes = 256 << 10;
  constexpr int64_t kRowBytes = 192 << 10;
  constexpr int64_t kMinPanels = 4;  // kernels interleave up to four panels at one row
  constexpr int64_t kMaxPanels = 16;
  constexpr int64_t kRowStep = 24;  // a multiple of every kernel's tile height but the last
  const int64_t panel_bytes = std::max<int64_t>(1, kernels::panel_bytes(w.format(), w.k()));
  const int64_t panels = std::clamp(kPieceBytes / panel_bytes / kMinPanels * kMinPanels, kMinPanels, kMaxPanels);
  const int64_t row_bytes = std::max<int64_t>(1, w.k() * activation_bytes(kernels::activations_of(w.format())));
  const int64_t rows = std::max(kRowStep, kRowBytes / row_bytes / kRowStep * kRowStep);
  return {panels * kernels::kPanelColumns, std::min(rows, m)};
}

/// A quantised row of k elements.
struct RowLayout {
  int64_t elements;  ///< with padding
  int64_t groups;    ///< scales and sums
};

RowLayout row_layout(Activations kind, int64_t k) {
  if (kind == Activations::kInt8G32) return {kernels::num_groups(k) * kernels::kGroup, kernels::num_groups(k)};
  const int64_t groups = kernels::num_channel_groups(k);
  return {groups * kernels::kChannelGroup, kind == Activations::kInt8G64 ? groups : 1};
}

}  // namespace

Expected<QuantizedRows> QuantizedRows::create(int64_t max_rows, int64_t max_k) {
  QuantizedRows rows;
  const int64_t groups = kernels::num_groups(max_k);  // of 32: the smallest
  const int64_t padded = kernels::num_channel_groups(max_k) * kernels::kChannelGroup;
  LOCKSTEP_ASSIGN_OR_RETURN(
      rows.q_, Buffer::allocate(max_rows * padded * static_cast<int64_t>(sizeof(int16_t)), "quantised activations"));
  LOCKSTEP_ASSIGN_OR_RETURN(rows.scale_, Buffer::allocate(max_rows * groups * 4, "scales of quantised activations"));
  LOCKSTEP_ASSIGN_OR_RETURN(rows.sum_, Buffer::allocate(max_rows * groups * 4, "sums of quantised activations"));
  rows.max_rows_ = max_rows;
  rows.max_k_ = max_k;
  return rows;
}

int64_t QuantizedRows::bytes() const { return q_.bytes() + scale_.bytes() + sum_.bytes(); }

void QuantizedRows::touch() {
  for (Buffer* buffer : {&q_, &scale_, &sum_}) buffer->touch();
}

void QuantizedRows::bind(int64_t k, int64_t first_row, kernels::MatmulArgs& args) const {
  // Rows lie as dense as this k allows, so that a narrow matrix's rows share pages and cache.
  const RowLayout layout = row_layout(kind_, k);
  args.xq_stride = layout.elements;
  args.group_stride = layout.groups;
  if (kind_ == Activations::kInt16) {
    args.xq16 = q_.as<const int16_t>() + first_row * layout.elements;
  } else if (kind_ == Activations::kBF16) {
    args.xb16 = q_.as<const uint16_t>() + first_row * layout.elements;
  } else {
    args.xq = q_.as<const int8_t>() + first_row * layout.elements;
  }
  args.x_scale = scale_.as<const float>() + first_row * layout.groups;
  args.x_sum = sum_.as<const int32_t>() + first_row * layout.groups;
}

void quantize_rows(const Context& ctx, Activations kind, View<const float> x, QuantizedRows& out,
                   View<int32_t> row_ok) {
  const int64_t m = x.extent(0);
  const int64_t k = x.extent(1);
  LOCKSTEP_CHECK(m <= out.max_rows_ && k <= out.max_k_);
  LOCKSTEP_CHECK(row_ok.empty() || row_ok.extent(0) >= m);
  LOCKSTEP_CHECK(kind != Activations::kF32);
  out.kind_ = kind;
  const RowLayout layout = row_layout(kind, k);
  const auto quantize = [&](int64_t t) {
    const int64_t at = t * layout.elements;
    float* scale = out.scale_.as<float>() + t * layout.groups;
    if (kind == Activations::kInt16) return ctx.kernels->quantize_row16(x.row(t), k, out.q_.as<int16_t>() + at, scale);
    if (kind == Activations::kBF16) return ctx.kernels->round_row_bf16(x.row(t), k, out.q_.as<uint16_t>() + at);
    const auto quantize_groups = kind == Activations::kInt8G64 ? ctx.kernels->quantize_g64 : ctx.kernels->quantize_g32;
    return quantize_groups(x.row(t), k, out.q_.as<int8_t>() + at, scale, out.sum_.as<int32_t>() + t * layout.groups);
  };
  for_each_rows(ctx, m, k, kQuantizeGrain, [&](int64_t first, int64_t end) {
    for (int64_t t = first; t < end; ++t) {
      const bool finite = quantize(t);
      if (!finite && !row_ok.empty()) row_ok(t) = 0;
    }
  });
}

void matmul(const Context& ctx, const Matrix& w, View<const float> x, QuantizedRows& quantized, View<float> out) {
  const int64_t m = out.extent(0);
  const Activations kind = kernels::activations_of(w.format());
  LOCKSTEP_CHECK(out.extent(1) == w.n());
  LOCKSTEP_CHECK(kind != Activations::kF32 ? m <= quantized.max_rows() && kind == quantized.kind()
                                           : x.extent(0) == m && x.extent(1) == w.k());
  const Cut cut = choose_cut(w, m);
  const int64_t row_pieces = ceil_div(m, cut.rows);
  const kernels::MatmulFn kernel = ctx.kernels->matmul[static_cast<size_t>(w.format())];
  // Row pieces follow each other, so that a column piece's weights come from memory once for all of them.
  ctx.pool->parallel_for(ceil_div(w.n(), cut.columns) * row_pieces, [&](int64_t piece, int) {
    const int64_t column = piece / row_pieces * cut.columns;
    const int64_t row = piece % row_pieces * cut.rows;
    kernels::MatmulArgs args = {};
    args.weights = w.panel(column / kernels::kPanelColumns);
    args.n = std::min(cut.columns, w.n() - column);
    args.k = w.k();
    args.m = std::min(cut.rows, m - row);
    if (kind != Activations::kF32) {
      quantized.bind(w.k(), row, args);
    } else {
      args.x = x.row(row);
      args.x_stride = x.stride(0);
    }
    args.out = out.row(row) + column;
    args.out_stride = out.stride(0);
    kernel(args);
  });
}

}  // namespace lockstep::ops
