// SPDX-License-Identifier: Apache-2.0
#include "model/llama.h"

namespace lockstep::model {

loader::DecoderSpec Llama::spec(const loader::ModelConfig& config) {
  return {.qkv_bias = config.attention_bias,
          .o_bias = config.attention_o_bias,
          .qk_norm = false,
          .tied_head = config.tie_word_embeddings};
}

void Llama::layer(Pass& pass, int64_t index) const {
  const loader::LayerWeights& w = weights().layers[static_cast<size_t>(index)];
  norm_input(pass, w.input_norm);
  const Qkv qkv = project_qkv(pass, w.qkv);
  rotate(pass, qkv.q);
  rotate(pass, qkv.k);
  attend(pass, index, qkv);
  add_attention_output(pass, w.o);

  norm_input(pass, w.post_attention_norm);
  add_swiglu_mlp(pass, w.gate_up, w.down);
}

}  // namespace lockstep::model
