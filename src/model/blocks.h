// SPDX-License-Identifier: Apache-2.0
// The blocks that decoder layers are made of. Each works on all T tokens of a pass.
#pragma once

#include <cstdint>
#include <span>

#include "loader/weights.h"
#include "model/rope.h"
#include "model/workspace.h"
#include "ops/attention.h"
#include "ops/context.h"
#include "ops/contiguous_attention.h"
#include "step/step.h"
#include "tensor/view.h"

namespace lockstep::model {

/// What a step hands to the model. Host memory, alive during the call.
struct Batch {
  View<const int32_t> token_ids;  ///< [T]
  View<const int32_t> positions;  ///< [T]
  ops::AttentionRows rows;
  const step::KvGeometry* kv = nullptr;
  std::span<const ops::KvLayer> kv_layers;
  ops::ContiguousKv* contiguous = nullptr;  ///< if set, attention reads this store, which is written beside the pages
  View<const int32_t> contiguous_rows;      ///< [R]  its rows
  View<int32_t> token_ok;                   ///< [T]  set to 0 where NaN or infinity turns up, else left alone
};

/// One pass of a batch through the layers: the batch and views of exactly its T tokens.
struct Pass {
  const ops::Context& ctx;
  const loader::ModelConfig& config;
  const Batch& batch;
  Workspace& workspace;
  View<float> x, normed, qkv, attended, projected, cos, sin;
};
Pass make_pass(const ops::Context& ctx, const loader::ModelConfig& config, const Batch& batch, Workspace& workspace);

/// Views into pass.qkv.
struct Qkv {
  View<float> q;  ///< [T, heads * head_dim]
  View<float> k;  ///< [T, kv_heads * head_dim]
  View<float> v;
};

/// out = x W^T + bias for tokens first_token.. of the pass (x and out have the rows in use). Quantises x where the
/// format wants it.
void project(Pass& pass, const loader::Projection& weights, int64_t first_token, View<const float> x, View<float> out);

/// pass.normed = rms_norm(pass.x).
void norm_input(Pass& pass, const loader::Vector& weight);
/// q, k, v of pass.normed.
Qkv project_qkv(Pass& pass, const loader::Projection& weights);
/// Root-mean-square norm of each head, in place.
void norm_heads(Pass& pass, View<float> heads, const loader::Vector& weight);
/// Rotary positions, in place.
void rotate(Pass& pass, View<float> heads);
/// Writes k and v to the pages of layer `layer`, then pass.attended = softmax(q k^T / sqrt(head_dim)) v over each row's
/// pages.
void attend(Pass& pass, int64_t layer, const Qkv& qkv);
/// pass.x += pass.attended W^T.
void add_attention_output(Pass& pass, const loader::Projection& weights);
/// pass.x += down(silu(gate(normed)) * up(normed)).
void add_swiglu_mlp(Pass& pass, const loader::Projection& gate_up, const loader::Projection& down);

/// token_ok[t] = 0 for each row t of x with NaN or infinity.
void flag_non_finite(const ops::Context& ctx, View<const float> x, View<int32_t> token_ok);

}  // namespace lockstep::model
