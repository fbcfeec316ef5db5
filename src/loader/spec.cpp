// SPDX-License-Identifier: Apache-2.0
#include "loader/spec.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "base/log.h"
#include "ops/matrix.h"

namespace lockstep::loader {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void add_layer(const ModelConfig& c, const DecoderSpec& spec, const std::string& layer, std::vector<TensorSpec>& out) {
  const int64_t q = c.num_heads * c.head_dim;
  const int64_t kv = c.num_kv_heads * c.head_dim;
  out.push_back({layer + "input_layernorm.weight", {c.hidden_size}});
  const std::string attention = layer + "self_attn.";
  out.push_back({attention + "q_proj.weight", {q, c.hidden_size}});
  out.push_back({attention + "k_proj.weight", {kv, c.hidden_size}});
  out.push_back({attention + "v_proj.weight", {kv, c.hidden_size}});
  if (spec.qkv_bias) {
    out.push_back({attention + "q_proj.bias", {q}});
    out.push_back({attention + "k_proj.bias", {kv}});
    out.push_back({attention + "v_proj.bias", {kv}});
  }
  if (spec.qk_norm) {
    out.push_back({attention + "q_norm.weight", {c.head_dim}});
    out.push_back({attention + "k_norm.weight", {c.head_dim}});
  }
  out.push_back({attention + "o_proj.weight", {c.hidden_size, q}});
  if (spec.o_bias) out.push_back({attention + "o_proj.bias", {c.hidden_size}});
  out.push_back({layer + "post_attention_layernorm.weight", {c.hidden_size}});
  out.push_back({layer + "mlp.gate_proj.weight", {c.intermediate_size, c.hidden_size}});
  out.push_back({layer + "mlp.up_proj.weight", {c.intermediate_size, c.hidden_size}});
  out.push_back({layer + "mlp.down_proj.weight", {c.hidden_size, c.intermediate_size}});
}

bool is_plain_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

Status check_tensor(const Checkpoint& checkpoint, const TensorSpec& wanted) {
  const files::TensorInfo* found = checkpoint.find(wanted.name);
  if (found == nullptr) {
    return error(StatusCode::kNotFound, "{}: tensor {} is missing, expected {}", checkpoint.path(), wanted.name,
                 shape_text(wanted.shape));
  }
  if (found->shape != wanted.shape) {
    return invalid_argument("{}: tensor {} has shape {}, expected {}", found->file, found->name,
                            shape_text(found->shape), shape_text(wanted.shape));
  }
  const bool is_vector = wanted.shape.size() == 1;
  if (is_vector && !is_plain_float(found->dtype)) {
    return error(StatusCode::kUnsupported, "{}: tensor {} has type {}, expected f32, f16 or bf16", found->file,
                 found->name, to_string(found->dtype));
  }
  if (!ops::native_format(found->dtype)) {
    return error(StatusCode::kUnsupported, "{}: tensor {} has type {}, expected f32, f16, bf16 or a block type of GGUF",
                 found->file, found->name, to_string(found->dtype));
  }
  const auto row_bytes = dtype_bytes(found->dtype, wanted.shape.back());
  if (!row_bytes) {
    return error(StatusCode::kUnsupported, "{}: tensor {} has rows of {} elements, expected a multiple of {} for {}",
                 found->file, found->name, wanted.shape.back(), dtype_info(found->dtype).block_elements,
                 to_string(found->dtype));
  }
  if (found->rows) return {};  // checked when the checkpoint was opened
  const int64_t bytes = is_vector ? *row_bytes : *row_bytes * wanted.shape[0];
  if (static_cast<int64_t>(found->data.size()) != bytes) {
    return error(StatusCode::kDataLoss, "{}: tensor {} has {} bytes, expected {}", found->file, found->name,
                 found->data.size(), bytes);
  }
  return {};
}

bool is_buffer(std::string_view name) {
  return name.ends_with("rotary_emb.inv_freq") || name.ends_with("self_attn.bias") ||
         name.ends_with("self_attn.masked_bias");
}

Status check_unexpected(const Checkpoint& checkpoint, const std::vector<TensorSpec>& wanted, const DecoderSpec& spec,
                        const std::string& prefix) {
  std::unordered_set<std::string_view> known;
  for (const TensorSpec& tensor : wanted) known.insert(tensor.name);
  for (const files::TensorInfo& tensor : checkpoint.tensors()) {
    const std::string_view name = tensor.name;
    if (known.contains(name) || is_buffer(name) || (spec.tied_head && name == "lm_head.weight")) continue;
    const bool decoder = name.starts_with("model.") || name.starts_with("lm_head.") ||
                         (prefix.empty() && (name.starts_with("layers.") || name.starts_with("norm.") ||
                                             name.starts_with("embed_tokens.")));
    if (decoder) {
      return error(StatusCode::kUnsupported,
                   "{}: tensor {} has no place in architecture {}, expected only weights that it uses", tensor.file,
                   name, to_string(checkpoint.config().architecture));
    }
    log_warning("{}: tensor {} is not part of the decoder, ignored", tensor.file, name);
  }
  return {};
}

}  // namespace

std::string_view to_string(WeightsMode mode) {
  switch (mode) {
    case WeightsMode::kNative:
      return "native";
    case WeightsMode::kBF16:
      return "bf16";
    case WeightsMode::kF32:
      return "f32";
    case WeightsMode::kBF16Dot:
      return "bf16dot";
    case WeightsMode::kW8A16:
      return "w8a16";
    case WeightsMode::kW8A8:
      return "w8a8";
    case WeightsMode::kW4A8:
      return "w4a8";
  }
  return "?";
}

std::string name_prefix(const Checkpoint& checkpoint) {
  const bool bare =
      checkpoint.find("model.embed_tokens.weight") == nullptr && checkpoint.find("embed_tokens.weight") != nullptr;
  return bare ? "" : "model.";
}

std::vector<TensorSpec> required_tensors(const ModelConfig& config, const DecoderSpec& spec,
                                         const std::string& prefix) {
  std::vector<TensorSpec> out;
  out.push_back({prefix + "embed_tokens.weight", {config.vocab_size, config.hidden_size}});
  for (int64_t i = 0; i < config.num_layers; ++i) add_layer(config, spec, fmt::format("{}layers.{}.", prefix, i), out);
  out.push_back({prefix + "norm.weight", {config.hidden_size}});
  if (!spec.tied_head) out.push_back({"lm_head.weight", {config.vocab_size, config.hidden_size}});
  return out;
}

Status check_tensors(const Checkpoint& checkpoint, const DecoderSpec& spec) {
  const std::string prefix = name_prefix(checkpoint);
  const std::vector<TensorSpec> wanted = required_tensors(checkpoint.config(), spec, prefix);
  for (const TensorSpec& tensor : wanted) LOCKSTEP_RETURN_IF_ERROR(check_tensor(checkpoint, tensor));
  return check_unexpected(checkpoint, wanted, spec, prefix);
}

}  // namespace lockstep::loader
