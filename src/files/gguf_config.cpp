// SPDX-License-Identifier: Apache-2.0
// ModelConfig from GGUF metadata. Key names: the ggml project's docs/gguf.md and PyPI gguf's constants.
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "files/config_check.h"
#include "files/dequantize.h"
#include "files/mapped_file.h"
#include "files/model_config.h"

namespace lockstep::files {
namespace {

class Reader final {
 public:
  Reader(std::span<const GgufFile* const> parts, std::string prefix)
      : file_(*parts.front()), parts_(parts), prefix_(std::move(prefix)) {}

  template <class... Args>
  ErrorBuilder fail(StatusCode code, fmt::format_string<Args...> format, Args&&... args) const {
    return error(code, "{}: {}", printable(file_.path(), 4096), fmt::format(format, std::forward<Args>(args)...));
  }

  /// {arch}.`name`; nullopt if absent.
  Expected<std::optional<int64_t>> integer(std::string_view name) const {
    return typed(name, "an integer", file_.find_int(prefix_ + std::string(name)));
  }
  Expected<std::optional<double>> number(std::string_view name) const {
    return typed(name, "a number", file_.find_float(prefix_ + std::string(name)));
  }
  Expected<std::optional<std::string>> string(std::string_view name) const {
    return typed(name, "a string", file_.find_string(prefix_ + std::string(name)));
  }
  Expected<int64_t> required(std::string_view name) const {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto value, integer(name));
    if (!value) return fail(StatusCode::kDataLoss, "{}{}: expected an integer, found none", prefix_, name);
    return *value;
  }
  const GgufFile& file() const { return file_; }
  const GgufTensor* find_tensor(std::string_view name) const {
    for (const GgufFile* part : parts_) {
      if (const GgufTensor* tensor = part->find_tensor(name)) return tensor;
    }
    return nullptr;
  }
  const std::string& prefix() const { return prefix_; }

 private:
  template <class T>
  Expected<std::optional<T>> typed(std::string_view name, std::string_view expected, std::optional<T> value) const {
    if (value || file_.find(prefix_ + std::string(name)) == nullptr) return value;
    return fail(StatusCode::kUnsupported,
                "{}{}: expected {}, found another type (lists, one value a layer, are not "
                "supported)",
                prefix_, name, expected);
  }

  const GgufFile& file_;  ///< the first part, with the metadata
  std::span<const GgufFile* const> parts_;
  std::string prefix_;
};

Status read_sizes(const Reader& reader, ModelConfig& model) {
  LOCKSTEP_ASSIGN_OR_RETURN(model.num_layers, reader.required("block_count"));
  LOCKSTEP_ASSIGN_OR_RETURN(model.hidden_size, reader.required("embedding_length"));
  LOCKSTEP_ASSIGN_OR_RETURN(model.intermediate_size, reader.required("feed_forward_length"));
  LOCKSTEP_ASSIGN_OR_RETURN(model.num_heads, reader.required("attention.head_count"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto kv_heads, reader.integer("attention.head_count_kv"));
  model.num_kv_heads = kv_heads.value_or(model.num_heads);
  LOCKSTEP_ASSIGN_OR_RETURN(model.max_position, reader.required("context_length"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto key_length, reader.integer("attention.key_length"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto value_length, reader.integer("attention.value_length"));
  model.head_dim = key_length.value_or(0);
  if (key_length && *key_length < 1) {
    return reader.fail(StatusCode::kDataLoss, "{}attention.key_length: expected 1..2^31-1, found {}", reader.prefix(),
                       *key_length);
  }
  if (value_length && value_length != key_length) {
    return reader.fail(StatusCode::kUnsupported, "{}attention.value_length {} differs from key_length {}",
                       reader.prefix(), *value_length, key_length.value_or(0));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto eps, reader.number("attention.layer_norm_rms_epsilon"));
  if (!eps) {
    return reader.fail(StatusCode::kDataLoss, "{}attention.layer_norm_rms_epsilon: expected a number, found none",
                       reader.prefix());
  }
  model.rms_norm_eps = *eps;
  return {};
}

/// The vocabulary is the embedding's rows; the head is tied when there is no output.weight; biases are there or not.
Status read_tensors(const Reader& reader, ModelConfig& model) {
  const GgufTensor* embedding = reader.find_tensor("token_embd.weight");
  if (embedding == nullptr) {
    return reader.fail(StatusCode::kDataLoss, "tensor token_embd.weight is missing{}",
                       reader.file().tensors().empty() ? " (the file holds no tensors: a vocabulary only?)" : "");
  }
  if (embedding->shape.size() != 2) {
    return reader.fail(StatusCode::kDataLoss, "tensor token_embd.weight: expected 2 dimensions, found {}",
                       embedding->shape.size());
  }
  model.vocab_size = embedding->shape[0];
  model.tie_word_embeddings = reader.find_tensor("output.weight") == nullptr;
  model.attention_bias =
      model.architecture == Architecture::kQwen2 || reader.find_tensor("blk.0.attn_q.bias") != nullptr;
  model.attention_o_bias = reader.find_tensor("blk.0.attn_output.bias") != nullptr;
  model.qk_norm = model.architecture == Architecture::kQwen3;
  return {};
}

Status read_token_ids(const Reader& reader, ModelConfig& model) {
  const auto token_id = [&](const char* key) -> Expected<std::optional<int32_t>> {
    const auto id = reader.file().find_int(key);
    if (!id) return std::optional<int32_t>();
    if (*id < 0 || *id > std::numeric_limits<int32_t>::max()) {
      return reader.fail(StatusCode::kDataLoss, "{}: expected a token id, found {}", key, *id);
    }
    return std::optional<int32_t>(static_cast<int32_t>(*id));
  };
  LOCKSTEP_ASSIGN_OR_RETURN(model.bos_token_id, token_id("tokenizer.ggml.bos_token_id"));
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto id, token_id(key));
    if (id && (model.eos_token_ids.empty() || model.eos_token_ids.front() != *id)) model.eos_token_ids.push_back(*id);
  }
  return {};
}

/// llama.cpp multiplies its own yarn factor 1 + 0.1 ln(factor) by attn_factor.
Status read_yarn(const Reader& reader, RopeConfig& rope) {
  for (const char* name : {"rope.scaling.yarn_ext_factor", "rope.scaling.yarn_attn_factor"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto value, reader.number(name));
    if (value && *value != 1.0) {
      return reader.fail(StatusCode::kUnsupported, "{}{}: expected 1, found {}", reader.prefix(), name, *value);
    }
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto log_multiplier, reader.number("rope.scaling.yarn_log_multiplier"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto attn_factor, reader.number("rope.scaling.attn_factor"));
  if (log_multiplier.value_or(0.0) != 0.0 || attn_factor.value_or(1.0) != 1.0) {
    return reader.fail(StatusCode::kUnsupported, "{}rope.scaling: yarn with its own attention factor is not supported",
                       reader.prefix());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto fast, reader.number("rope.scaling.yarn_beta_fast"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto slow, reader.number("rope.scaling.yarn_beta_slow"));
  rope.beta_fast = fast.value_or(rope.beta_fast);
  rope.beta_slow = slow.value_or(rope.beta_slow);
  return {};
}

Status read_scaling(const Reader& reader, RopeConfig& rope) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto type, reader.string("rope.scaling.type"));
  LOCKSTEP_ASSIGN_OR_RETURN(auto factor, reader.number("rope.scaling.factor"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto linear, reader.number("rope.scale_linear"));  // files of 2023
  LOCKSTEP_ASSIGN_OR_RETURN(const auto original, reader.integer("rope.scaling.original_context_length"));
  if (!factor) factor = linear;
  const std::string name = type.value_or(factor.value_or(1.0) != 1.0 ? "linear" : "none");
  if (name == "none") return {};
  if (name == "longrope") {
    rope.type = RopeType::kLongRope;
    rope.original_max_position = original.value_or(0);
    return {};
  }
  if (name != "linear" && name != "yarn") {
    return reader.fail(StatusCode::kUnsupported,
                       "{}rope.scaling.type: \"{}\" is not supported (supported: none, linear, yarn, longrope)",
                       reader.prefix(), printable(name, 60));
  }
  if (!factor) {
    return reader.fail(StatusCode::kDataLoss, "{}rope.scaling.factor: expected a number, found none", reader.prefix());
  }
  rope.factor = *factor;
  if (name == "linear") {
    rope.type = RopeType::kLinear;
    return {};
  }
  rope.type = RopeType::kYarn;
  rope.original_max_position = original.value_or(0);
  return read_yarn(reader, rope);
}

/// A tensor of head_dim / 2 divisors; no tensor leaves `out` empty.
Status read_divisors(const Reader& reader, int64_t head_dim, std::string_view name, std::vector<float>& out) {
  const GgufTensor* tensor = reader.find_tensor(name);
  if (tensor == nullptr) return {};
  if (tensor->dtype != DType::kF32 || tensor->shape != std::vector<int64_t>{head_dim / 2}) {
    return reader.fail(StatusCode::kDataLoss, "tensor {}: expected f32 [{}], found {} [{}]", name, head_dim / 2,
                       to_string(tensor->dtype), fmt::join(tensor->shape, ", "));
  }
  out.resize(static_cast<size_t>(head_dim / 2));
  LOCKSTEP_RETURN_IF_ERROR(dequantize(DType::kF32, tensor->data, out));
  for (const float factor : out) {
    if (std::isfinite(factor) && factor > 0.0f) continue;
    return reader.fail(StatusCode::kDataLoss, "tensor {}: expected numbers above 0, found {}", name, factor);
  }
  return {};
}

/// rope_freqs.weight: llama3 scaling, computed when the file was made. rope_factors_*.weight: longrope.
Status read_freq_factors(const Reader& reader, ModelConfig& model) {
  RopeConfig& rope = model.rope;
  LOCKSTEP_RETURN_IF_ERROR(read_divisors(reader, model.head_dim, "rope_freqs.weight", rope.freq_factors));
  if (rope.type != RopeType::kLongRope) return {};
  if (!rope.freq_factors.empty()) {
    return reader.fail(StatusCode::kUnsupported, "tensor rope_freqs.weight beside longrope is not supported");
  }
  LOCKSTEP_RETURN_IF_ERROR(read_divisors(reader, model.head_dim, "rope_factors_short.weight", rope.short_factors));
  LOCKSTEP_RETURN_IF_ERROR(read_divisors(reader, model.head_dim, "rope_factors_long.weight", rope.long_factors));
  if (rope.short_factors.empty() || rope.long_factors.empty()) {
    return reader.fail(StatusCode::kDataLoss, "tensor rope_factors_{}.weight is missing",
                       rope.short_factors.empty() ? "short" : "long");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto attention, reader.number("rope.scaling.attn_factor"));
  rope.attention_factor = attention.value_or(1.0);
  return {};
}

/// Variants that share an architecture's name and would give wrong tokens.
Status refuse_unsupported(const Reader& reader, const ModelConfig& model) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto experts, reader.integer("expert_count"));
  if (experts.value_or(0) != 0) {
    return reader.fail(StatusCode::kUnsupported, "{}expert_count: mixture-of-experts models are not supported",
                       reader.prefix());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto rotated, reader.integer("rope.dimension_count"));
  if (rotated && *rotated != model.head_dim) {
    return reader.fail(StatusCode::kUnsupported, "{}rope.dimension_count: expected the head's {}, found {}",
                       reader.prefix(), model.head_dim, *rotated);
  }
  const auto version = reader.file().find_int("general.quantization_version");
  if (version && *version != 2) {
    return reader.fail(StatusCode::kUnsupported, "general.quantization_version: expected 2, found {}", *version);
  }
  return {};
}

}  // namespace

Expected<ModelConfig> model_config_from_gguf(const GgufFile& file) {
  const GgufFile* const parts[] = {&file};
  return model_config_from_parts(parts);
}

Expected<ModelConfig> model_config_from_parts(std::span<const GgufFile* const> parts) {
  const GgufFile& file = *parts.front();
  const auto name = file.find_string("general.architecture");
  const Reader reader(parts, name.value_or("") + ".");
  if (!name) return reader.fail(StatusCode::kDataLoss, "general.architecture: expected a string, found none");
  const auto architecture = architecture_of(*name);
  if (!architecture) {
    return reader.fail(StatusCode::kUnsupported, "general.architecture: \"{}\" is not supported (supported: {})",
                       printable(*name, 60), supported_architectures());
  }
  ModelConfig model;
  model.source = printable(file.path(), 4096);
  model.architecture = *architecture;
  LOCKSTEP_RETURN_IF_ERROR(read_sizes(reader, model));
  LOCKSTEP_RETURN_IF_ERROR(read_tensors(reader, model));
  LOCKSTEP_RETURN_IF_ERROR(read_token_ids(reader, model));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto theta, reader.number("rope.freq_base"));
  model.rope.theta = theta.value_or(10000.0);
  LOCKSTEP_RETURN_IF_ERROR(read_scaling(reader, model.rope));
  LOCKSTEP_RETURN_IF_ERROR(finish_sizes(model, /*qwen3_default=*/false));
  LOCKSTEP_RETURN_IF_ERROR(refuse_unsupported(reader, model));
  LOCKSTEP_RETURN_IF_ERROR(read_freq_factors(reader, model));
  LOCKSTEP_RETURN_IF_ERROR(check_rope(model));
  return model;
}

}  // namespace lockstep::files
