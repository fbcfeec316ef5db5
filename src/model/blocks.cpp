// SPDX-License-Identifier: Apache-2.0
#include "model/blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ops/elementwise.h"
#include "ops/matmul.h"

namespace lockstep::model {
namespace {

/// Rows that a thread checks at a time: some microseconds of work.
constexpr int64_t kCheckElements = 32768;

bool is_finite_row(const float* x, int64_t n) {
  constexpr uint32_t kExponent = 0x7f800000u;
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & kExponent);
  return largest != kExponent;
}

}  // namespace

Pass make_pass(const ops::Context& ctx, const loader::ModelConfig& config, const Batch& batch, Workspace& workspace) {
  const int64_t tokens = batch.token_ids.extent(0);
  return {ctx,
          config,
          batch,
          workspace,
          workspace.x.prefix(tokens),
          workspace.normed.prefix(tokens),
          workspace.qkv.prefix(tokens),
          workspace.attended.prefix(tokens),
          workspace.projected.prefix(tokens),
          workspace.cos.prefix(tokens),
          workspace.sin.prefix(tokens)};
}

void project(Pass& pass, const loader::Projection& weights, int64_t first_token, View<const float> x, View<float> out) {
  ops::QuantizedRows& quantized = pass.workspace.quantized;
  auto made = kernels::Activations::kF32;
  for (const loader::Projection::Part& part : weights.parts) {
    const kernels::Activations kind = kernels::activations_of(part.matrix.format());
    if (kind != kernels::Activations::kF32 && kind != made) {
      ops::quantize_rows(pass.ctx, kind, x, quantized, pass.batch.token_ok.slice(first_token, x.extent(0)));
      made = kind;
    }
    ops::matmul(pass.ctx, part.matrix, x, quantized, out.columns(part.first, part.matrix.n()));
  }
  if (!weights.bias.empty()) ops::add_bias(pass.ctx, out, weights.bias.view());
}

void norm_input(Pass& pass, const loader::Vector& weight) {
  ops::rms_norm(pass.ctx, pass.x, weight.view(), static_cast<float>(pass.config.rms_norm_eps), pass.normed);
}

Qkv project_qkv(Pass& pass, const loader::Projection& weights) {
  const int64_t q = pass.config.num_heads * pass.config.head_dim;
  const int64_t kv = pass.config.num_kv_heads * pass.config.head_dim;
  project(pass, weights, 0, pass.normed, pass.qkv);
  // An infinite k could drop out of the softmax unseen, so it is looked for here.
  flag_non_finite(pass.ctx, pass.qkv, pass.batch.token_ok);
  return {pass.qkv.columns(0, q), pass.qkv.columns(q, kv), pass.qkv.columns(q + kv, kv)};
}

void norm_heads(Pass& pass, View<float> heads, const loader::Vector& weight) {
  ops::head_norm(pass.ctx, heads, heads.extent(1) / pass.config.head_dim, weight.view(),
                 static_cast<float>(pass.config.rms_norm_eps));
}

void rotate(Pass& pass, View<float> heads) {
  ops::rope(pass.ctx, heads, heads.extent(1) / pass.config.head_dim, pass.cos, pass.sin);
}

void attend(Pass& pass, int64_t layer, const Qkv& qkv) {
  const ops::KvLayer& pages = pass.batch.kv_layers[static_cast<size_t>(layer)];
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(pass.config.head_dim)));
  ops::store_kv(pass.ctx, *pass.batch.kv, pages, pass.batch.rows.slot_mapping, qkv.k, qkv.v);
  if (pass.batch.contiguous != nullptr) {
    ops::ContiguousKv& store = *pass.batch.contiguous;
    const View<const int32_t> store_rows = pass.batch.contiguous_rows;
    ops::store_contiguous(pass.ctx, store, layer, pass.batch.rows, store_rows, qkv.k, qkv.v);
    ops::attend_contiguous(pass.ctx, store, layer, pass.batch.rows, store_rows, scale, qkv.q, pass.attended);
    return;
  }
  ops::attend(pass.ctx, *pass.batch.kv, pages, pass.batch.rows, scale, pass.config.num_heads, qkv.q,
              pass.workspace.attention, pass.attended);
}

void add_attention_output(Pass& pass, const loader::Projection& weights) {
  project(pass, weights, 0, pass.attended, pass.projected);
  ops::add(pass.ctx, pass.x, pass.projected);
}

void add_swiglu_mlp(Pass& pass, const loader::Projection& gate_up, const loader::Projection& down) {
  const int64_t tokens = pass.x.extent(0);
  for (int64_t first = 0; first < tokens; first += kMlpTokens) {
    const int64_t count = std::min(kMlpTokens, tokens - first);
    const View<float> both = pass.workspace.gate_up.prefix(count);
    const View<float> activated = both.columns(0, down.k);  // takes the gate's place
    project(pass, gate_up, first, pass.normed.slice(first, count), both);
    ops::silu_mul(pass.ctx, both, activated);
    project(pass, down, first, activated, pass.projected.slice(first, count));
  }
  ops::add(pass.ctx, pass.x, pass.projected);
}

void flag_non_finite(const ops::Context& ctx, View<const float> x, View<int32_t> token_ok) {
  const int64_t rows = x.extent(0);
  const int64_t rows_a_piece = std::max<int64_t>(1, kCheckElements / std::max<int64_t>(1, x.extent(1)));
  ctx.pool->parallel_for((rows + rows_a_piece - 1) / rows_a_piece, [&](int64_t piece, int) {
    const int64_t end = std::min(rows, (piece + 1) * rows_a_piece);
    for (int64_t t = piece * rows_a_piece; t < end; ++t) {
      if (!is_finite_row(x.row(t), x.extent(1))) token_ok(t) = 0;
    }
  });
}

}  // namespace lockstep::model
