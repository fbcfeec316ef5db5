// SPDX-License-Identifier: Apache-2.0
// Qwen3 (Yang et al., "Qwen3 Technical Report", arXiv 2505.09388): pre-norm decoder, grouped-query attention with
// root-mean-square norm on each head of q and k, SwiGLU.
#pragma once

#include "model/model.h"

namespace lockstep::model {

class Qwen3 final : public Model {
 public:
  static loader::DecoderSpec spec(const loader::ModelConfig& config);
  Qwen3(const loader::ModelConfig& config, loader::DecoderWeights weights) : Model(config, std::move(weights)) {}

 private:
  void layer(Pass& pass, int64_t index) const override;
};

}  // namespace lockstep::model
