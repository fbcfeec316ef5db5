// SPDX-License-Identifier: Apache-2.0
// Qwen2 and Qwen2.5 (Yang et al., "Qwen2 Technical Report", arXiv 2407.10671): pre-norm decoder, grouped-query
// attention with a bias on q, k and v, SwiGLU.
#pragma once

#include "model/model.h"

namespace lockstep::model {

class Qwen2 final : public Model {
 public:
  static loader::DecoderSpec spec(const loader::ModelConfig& config);
  Qwen2(const loader::ModelConfig& config, loader::DecoderWeights weights) : Model(config, std::move(weights)) {}

 private:
  void layer(Pass& pass, int64_t index) const override;
};

}  // namespace lockstep::model
