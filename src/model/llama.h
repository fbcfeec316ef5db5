// SPDX-License-Identifier: Apache-2.0
// Llama (Touvron et al., arXiv 2302.13971; Grattafiori et al., arXiv 2407.21783): pre-norm decoder, grouped-query
// attention, SwiGLU; rarely a bias on q, k, v and o.
#pragma once

#include "model/model.h"

namespace lockstep::model {

class Llama final : public Model {
 public:
  static loader::DecoderSpec spec(const loader::ModelConfig& config);
  Llama(const loader::ModelConfig& config, loader::DecoderWeights weights) : Model(config, std::move(weights)) {}

 private:
  void layer(Pass& pass, int64_t index) const override;
};

}  // namespace lockstep::model
