// SPDX-License-Identifier: Apache-2.0
#include "model/model.h"

#include <algorithm>
#include <utility>

#include "model/llama.h"
#include "model/qwen2.h"
#include "model/qwen3.h"
#include "ops/elementwise.h"

namespace lockstep::model {
namespace {

bool takes_int8(const ops::Matrix& matrix) { return kernels::has_rounded_activations(matrix.format()); }

bool takes_int8(const loader::Projection& weights) {
  return std::any_of(weights.parts.begin(), weights.parts.end(),
                     [](const auto& part) { return takes_int8(part.matrix); });
}

bool takes_int8(const loader::DecoderWeights& weights) {
  return takes_int8(weights.head()) ||
         std::any_of(weights.layers.begin(), weights.layers.end(), [](const loader::LayerWeights& layer) {
           return takes_int8(layer.qkv) || takes_int8(layer.o) || takes_int8(layer.gate_up) || takes_int8(layer.down);
         });
}

}  // namespace

Model::Model(const loader::ModelConfig& config, loader::DecoderWeights weights)
    : config_(config), weights_(std::move(weights)), int8_activations_(takes_int8(weights_)) {}

Expected<std::unique_ptr<Model>> Model::create(const ops::Context& ctx, const loader::Checkpoint& checkpoint,
                                               loader::WeightsMode mode, const loader::Progress& progress) {
  const loader::ModelConfig& config = checkpoint.config();
  LOCKSTEP_ASSIGN_OR_RETURN(loader::DecoderWeights weights,
                            loader::load_decoder(ctx, checkpoint, decoder_spec(config), mode, progress));
  switch (config.architecture) {
    case loader::Architecture::kQwen3:
      return std::unique_ptr<Model>(new Qwen3(config, std::move(weights)));
    case loader::Architecture::kQwen2:
      return std::unique_ptr<Model>(new Qwen2(config, std::move(weights)));
    case loader::Architecture::kLlama:
      return std::unique_ptr<Model>(new Llama(config, std::move(weights)));
  }
  return error(StatusCode::kInternal, "architecture {} has no model", to_string(config.architecture));
}

loader::DecoderSpec decoder_spec(const loader::ModelConfig& config) {
  switch (config.architecture) {
    case loader::Architecture::kQwen3:
      return Qwen3::spec(config);
    case loader::Architecture::kQwen2:
      return Qwen2::spec(config);
    case loader::Architecture::kLlama:
      return Llama::spec(config);
  }
  return {};
}

View<float> Model::forward(const ops::Context& ctx, const Batch& batch, Workspace& workspace) const {
  Pass pass = make_pass(ctx, config_, batch, workspace);
  const Rope& rope = workspace.rope;
  const View<const float> inverse(rope.inverse_frequencies.data(),
                                  {static_cast<int64_t>(rope.inverse_frequencies.size())});
  ops::embed(ctx, weights_.embedding, batch.token_ids, pass.x);
  ops::rope_table(ctx, batch.positions, inverse, rope.scale, pass.cos, pass.sin);
  for (int64_t i = 0; i < config_.num_layers; ++i) layer(pass, i);
  flag_non_finite(ctx, pass.x, batch.token_ok);
  return pass.x;
}

void Model::final_norm(const ops::Context& ctx, View<const float> x, View<float> out) const {
  ops::rms_norm(ctx, x, weights_.final_norm.view(), static_cast<float>(config_.rms_norm_eps), out);
}

}  // namespace lockstep::model
