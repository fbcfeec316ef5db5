// SPDX-License-Identifier: Apache-2.0
#include "model/workspace.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep::model {
namespace {

constexpr int64_t kLine = 16;  // floats of a cache line

struct Extent {
  View<float>* view;
  int64_t rows;
  int64_t columns;
  int64_t floats() const { return (rows * columns + kLine - 1) / kLine * kLine; }
};

}  // namespace

Expected<Workspace> Workspace::create(const loader::ModelConfig& config, const WorkspaceShape& shape) {
  Workspace out;
  const int64_t tokens = shape.max_tokens;
  const int64_t mlp_tokens = std::min(tokens, kMlpTokens);
  const int64_t q = config.num_heads * config.head_dim;
  const int64_t kv = config.num_kv_heads * config.head_dim;
  const std::array<Extent, 8> extents = {{
      {&out.x, tokens, config.hidden_size},
      {&out.normed, tokens, config.hidden_size},
      {&out.qkv, tokens, q + 2 * kv},
      {&out.attended, tokens, q},
      {&out.projected, tokens, config.hidden_size},
      {&out.gate_up, mlp_tokens, 2 * config.intermediate_size},
      {&out.cos, tokens, config.head_dim / 2},
      {&out.sin, tokens, config.head_dim / 2},
  }};
  int64_t floats = 0;
  for (const Extent& extent : extents) floats += extent.floats();
  LOCKSTEP_ASSIGN_OR_RETURN(out.storage_,
                            Buffer::allocate(floats * static_cast<int64_t>(sizeof(float)), "activations of a step"));
  float* at = out.storage_.as<float>();
  for (const Extent& extent : extents) {
    *extent.view = View<float>(at, {extent.rows, extent.columns});
    at += extent.floats();
  }
  out.rope = make_rope(config.rope, config.head_dim, config.max_position, shape.max_model_len);
  if (shape.int8_activations) {
    const int64_t widest = std::max({config.hidden_size, config.intermediate_size, q});
    LOCKSTEP_ASSIGN_OR_RETURN(out.quantized, ops::QuantizedRows::create(tokens, widest));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(out.attention,
                            ops::AttentionScratch::create(shape.threads, shape.max_rows, tokens, shape.max_model_len,
                                                          config.num_heads, config.head_dim));
  return out;
}

int64_t Workspace::bytes() const { return storage_.bytes() + quantized.bytes() + attention.bytes(); }

void Workspace::touch() {
  storage_.touch();
  quantized.touch();
  attention.workers.touch();
  attention.partials.touch();
}

}  // namespace lockstep::model
