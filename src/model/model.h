// SPDX-License-Identifier: Apache-2.0
// A decoder: its weights and its layers. One file an architecture says which weights it needs and what a layer does.
#pragma once

#include <memory>

#include "base/status.h"
#include "loader/load.h"
#include "loader/weights.h"
#include "model/blocks.h"
#include "model/workspace.h"
#include "ops/context.h"

namespace lockstep::model {

/// Immutable after create(); forward() may be called by one thread at a time for each workspace.
class Model {
 public:
  /// Loads the weights of the checkpoint's architecture. Errors as loader::load_decoder.
  static Expected<std::unique_ptr<Model>> create(const ops::Context& ctx, const loader::Checkpoint& checkpoint,
                                                 loader::WeightsMode mode, const loader::Progress& progress);
  virtual ~Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const loader::ModelConfig& config() const { return config_; }
  const loader::DecoderWeights& weights() const { return weights_; }
  /// Some matrix takes int8 activations.
  bool int8_activations() const { return int8_activations_; }

  /// Embedding and all layers. Returns the residual stream [T, hidden] before the final norm, in the workspace.
  View<float> forward(const ops::Context& ctx, const Batch& batch, Workspace& workspace) const;
  /// The final norm of rows of the residual stream; out may be x.
  void final_norm(const ops::Context& ctx, View<const float> x, View<float> out) const;

 protected:
  Model(const loader::ModelConfig& config, loader::DecoderWeights weights);
  virtual void layer(Pass& pass, int64_t index) const = 0;

 private:
  loader::ModelConfig config_;
  loader::DecoderWeights weights_;
  bool int8_activations_;
};

/// Which weights the config's architecture needs.
loader::DecoderSpec decoder_spec(const loader::ModelConfig& config);

}  // namespace lockstep::model
