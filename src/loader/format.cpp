// SPDX-License-Identifier: Apache-2.0
#include "loader/format.h"

#include <functional>
#include <initializer_list>
#include <utility>

#include "loader/load.h"

namespace lockstep::loader {
namespace {

using kernels::WeightFormat;

bool is_quantisation(WeightsMode mode) {
  return mode == WeightsMode::kW8A16 || mode == WeightsMode::kW8A8 || mode == WeightsMode::kW4A8;
}

/// The stored type of a tensor by its name without prefix.
using StoredDType = std::function<DType(const std::string&)>;

/// Sums what DecoderLoader packs.
class BytesOfDecoder {
 public:
  BytesOfDecoder(const ModelConfig& config, const DecoderSpec& spec, WeightsMode mode, StoredDType stored)
      : config_(config), spec_(spec), mode_(mode), stored_(std::move(stored)) {}

  int64_t run() {
    const int64_t hidden = config_.hidden_size;
    sum_ = 0;
    vocabulary("embed_tokens");
    if (!spec_.tied_head) vocabulary("lm_head");
    vector(hidden);
    for (int64_t i = 0; i < config_.num_layers; ++i) layer(fmt::format("layers.{}.", i));
    return sum_;
  }

 private:
  struct Rows {
    std::string name;
    int64_t n;
  };

  void layer(const std::string& name) {
    const int64_t hidden = config_.hidden_size;
    const int64_t q = config_.num_heads * config_.head_dim;
    const int64_t kv = config_.num_kv_heads * config_.head_dim;
    const std::string attention = name + "self_attn.";
    const std::string mlp = name + "mlp.";
    vector(2 * hidden);
    stack({{attention + "q_proj", q}, {attention + "k_proj", kv}, {attention + "v_proj", kv}}, hidden);
    stack({{attention + "o_proj", hidden}}, q);
    stack({{mlp + "gate_proj", config_.intermediate_size}, {mlp + "up_proj", config_.intermediate_size}}, hidden);
    stack({{mlp + "down_proj", hidden}}, config_.intermediate_size);
    if (spec_.qkv_bias) vector(q + 2 * kv);
    if (spec_.o_bias) vector(hidden);
    if (spec_.qk_norm) vector(2 * config_.head_dim);
  }

  /// Neighbours of one format share a matrix.
  void stack(std::initializer_list<Rows> tensors, int64_t k) {
    WeightFormat format = WeightFormat::kF32;
    int64_t n = 0;
    for (const Rows& tensor : tensors) {
      const WeightFormat next = format_of(stored_(tensor.name), mode_, Role::kLayer);
      if (n > 0 && next != format) sum_ += kernels::packed_bytes(format, std::exchange(n, 0), k);
      format = next;
      n += tensor.n;
    }
    sum_ += kernels::packed_bytes(format, n, k);
  }

  void vocabulary(const std::string& name) {
    sum_ += kernels::packed_bytes(format_of(stored_(name), mode_, Role::kVocabulary), config_.vocab_size,
                                  config_.hidden_size);
  }

  void vector(int64_t n) { sum_ += n * static_cast<int64_t>(sizeof(float)); }

  const ModelConfig& config_;
  const DecoderSpec& spec_;
  WeightsMode mode_;
  StoredDType stored_;
  int64_t sum_ = 0;
};

}  // namespace

WeightFormat format_of(DType stored, WeightsMode mode, Role role) {
  switch (mode) {
    case WeightsMode::kNative:
      return *ops::native_format(stored);
    case WeightsMode::kBF16:
      return WeightFormat::kBF16;
    case WeightsMode::kF32:
      return WeightFormat::kF32;
    case WeightsMode::kBF16Dot:
      return WeightFormat::kBF16Dot;
    case WeightsMode::kW8A16:
      return WeightFormat::kW8A16;
    case WeightsMode::kW8A8:
      return WeightFormat::kW8A8;
    case WeightsMode::kW4A8:
      return role == Role::kLayer ? WeightFormat::kQ4_1 : WeightFormat::kW8A8;
  }
  return WeightFormat::kF32;
}

Expected<bool> quantises_again(const Checkpoint& checkpoint, const DecoderSpec& spec, WeightsMode mode) {
  if (!is_quantisation(mode)) return false;
  for (const TensorSpec& wanted : required_tensors(checkpoint.config(), spec, name_prefix(checkpoint))) {
    const files::TensorInfo* tensor = checkpoint.find(wanted.name);
    if (tensor->shape.size() < 2 || (dtype_info(tensor->dtype).block_elements == 1 && !tensor->rows)) continue;
    const bool int8_channels = tensor->dtype == DType::kI8Channel || tensor->dtype == DType::kI8ChannelA8;
    if (int8_channels && mode != WeightsMode::kW4A8) continue;  // the same weights, bit for bit
    if (mode != WeightsMode::kW4A8) return true;
    return error(StatusCode::kUnsupported,
                 "{}: tensor {} is stored as {}; quantization w4a8 needs a model in f32, f16 or bf16: rounding to 4 "
                 "bits a second time loses too much",
                 tensor->file, tensor->name, tensor->rows ? tensor->rows->stored() : to_string(tensor->dtype));
  }
  return false;
}

Expected<int64_t> decoder_bytes(const Checkpoint& checkpoint, const DecoderSpec& spec, WeightsMode mode) {
  LOCKSTEP_RETURN_IF_ERROR(check_tensors(checkpoint, spec));
  LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const bool again, quantises_again(checkpoint, spec, mode));
  const std::string prefix = name_prefix(checkpoint);
  const auto stored = [&](const std::string& name) {
    return checkpoint.find((name == "lm_head" ? "" : prefix) + name + ".weight")->dtype;
  };
  return BytesOfDecoder(checkpoint.config(), spec, mode, stored).run();
}

int64_t decoder_bytes(const ModelConfig& config, const DecoderSpec& spec, WeightsMode mode, DType stored) {
  return BytesOfDecoder(config, spec, mode, [stored](const std::string&) { return stored; }).run();
}

}  // namespace lockstep::loader
