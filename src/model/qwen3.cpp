// SPDX-License-Identifier: Apache-2.0
#include "model/qwen3.h"

namespace lockstep::model {

loader::DecoderSpec Qwen3::spec(const loader::ModelConfig& config) {
  return {.qkv_bias = config.attention_bias,
          .o_bias = config.attention_o_bias,
          .qk_norm = true,
          .tied_head = config.tie_word_embeddings};
}

void Qwen3::layer(Pass& pass, int64_t index) const {
  const loader::LayerWeights& w = weights().layers[static_cast<size_t>(index)];
  norm_input(pass, w.input_norm);
  const Qkv qkv = project_qkv(pass, w.qkv);
  norm_heads(pass, qkv.q, w.q_norm);
  norm_heads(pass, qkv.k, w.k_norm);
  rotate(pass, qkv.q);
  rotate(pass, qkv.k);
  attend(pass, index, qkv);
  add_attention_output(pass, w.o);

  norm_input(pass, w.post_attention_norm);
  add_swiglu_mlp(pass, w.gate_up, w.down);
}

}  // namespace lockstep::model
