// SPDX-License-Identifier: Apache-2.0
#include "files/model_config.h"

#include <array>
#include <utility>

#include "files/config_check.h"
#include "files/json_fields.h"
#include "files/mapped_file.h"
#include "files/rope_json.h"

namespace lockstep::files {
namespace {

using nlohmann::json;

constexpr size_t kMaxConfigBytes = 16 << 20;  // published ones have a few KB
constexpr std::string_view kClassSuffix = "ForCausalLM";

/// "Qwen3ForCausalLM" -> kQwen3.
std::optional<Architecture> architecture_of_class(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, Architecture>, 3> kClasses = {
      {{"Qwen3ForCausalLM", Architecture::kQwen3},
       {"Qwen2ForCausalLM", Architecture::kQwen2},
       {"LlamaForCausalLM", Architecture::kLlama}}};
  for (const auto& [known, architecture] : kClasses) {
    if (known == name) return architecture;
  }
  return std::nullopt;
}

Expected<std::optional<Architecture>> read_classes(const JsonFields& config) {
  const json* classes = config.find("architectures");
  if (classes == nullptr || (classes->is_array() && classes->empty())) return std::optional<Architecture>();
  if (!classes->is_array() || !classes->front().is_string()) {
    return config.fail(StatusCode::kDataLoss, "architectures", "expected a list of class names");
  }
  const auto& name = classes->front().get_ref<const std::string&>();
  const auto architecture = architecture_of_class(name);
  if (!architecture) {
    return config.fail(StatusCode::kUnsupported, "architectures",
                       "{} is not supported (supported: Qwen3, Qwen2, Llama, each {})", printable(name, 100),
                       kClassSuffix);
  }
  return architecture;
}

/// From architectures and model_type, which must agree where both are there.
Expected<Architecture> read_architecture(const JsonFields& config) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto by_class, read_classes(config));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto model_type, config.string("model_type"));
  if (!model_type) {
    if (by_class) return *by_class;
    return config.fail(StatusCode::kDataLoss, "model_type", "expected one of {}, found none",
                       supported_architectures());
  }
  const auto by_type = architecture_of(*model_type);
  if (!by_type) {
    return config.fail(StatusCode::kUnsupported, "model_type", "\"{}\" is not supported (supported: {})",
                       printable(*model_type, 100), supported_architectures());
  }
  if (by_class && *by_class != *by_type) {
    return config.fail(StatusCode::kDataLoss, "model_type", "expected {}, as architectures says, found {}",
                       to_string(*by_class), to_string(*by_type));
  }
  return *by_type;
}

/// transformers: with use_sliding_window and a window, the layers from max_window_layers on slide (Qwen2, Qwen3).
Status refuse_sliding_layers(const JsonFields& config, int64_t num_layers) {
  if (const json* types = config.find("layer_types")) {
    if (!types->is_array() || types->size() != static_cast<size_t>(num_layers)) {
      return config.fail(StatusCode::kDataLoss, "layer_types", "expected a list of {} names", num_layers);
    }
    for (const json& type : *types) {
      if (type == "full_attention") continue;
      return config.fail(StatusCode::kUnsupported, "layer_types", "only full_attention is supported, found {}",
                         type.is_string() ? printable(type.get_ref<const std::string&>(), 60) : "no name");
    }
    return {};
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto used, config.boolean("use_sliding_window"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto window, config.integer("sliding_window"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto first_sliding, config.integer("max_window_layers"));
  constexpr int64_t kDefaultFirstSliding = 28;
  if (used.value_or(false) && window && first_sliding.value_or(kDefaultFirstSliding) < num_layers) {
    return config.fail(StatusCode::kUnsupported, "use_sliding_window",
                       "layers with a sliding window are not supported");
  }
  return {};
}

/// What would give wrong tokens if it were ignored.
Status refuse_unsupported(const JsonFields& config, int64_t num_layers) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto activation, config.string("hidden_act"));
  if (activation && *activation != "silu" && *activation != "swish") {
    return config.fail(StatusCode::kUnsupported, "hidden_act", "only silu is supported, found \"{}\"",
                       printable(*activation, 60));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto mlp_bias, config.boolean("mlp_bias"));
  if (mlp_bias.value_or(false)) {
    return config.fail(StatusCode::kUnsupported, "mlp_bias", "biases in the feed-forward layers are not supported");
  }
  return refuse_sliding_layers(config, num_layers);
}

Expected<int64_t> required_size(const JsonFields& config, const char* field) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto value, config.integer(field));
  if (!value) return config.fail(StatusCode::kDataLoss, field, "expected an integer, found none");
  return *value;
}

Status read_sizes(const JsonFields& config, ModelConfig& model) {
  LOCKSTEP_ASSIGN_OR_RETURN(model.vocab_size, required_size(config, "vocab_size"));
  LOCKSTEP_ASSIGN_OR_RETURN(model.hidden_size, required_size(config, "hidden_size"));
  LOCKSTEP_ASSIGN_OR_RETURN(model.intermediate_size, required_size(config, "intermediate_size"));
  LOCKSTEP_ASSIGN_OR_RETURN(model.num_layers, required_size(config, "num_hidden_layers"));
  LOCKSTEP_ASSIGN_OR_RETURN(model.num_heads, required_size(config, "num_attention_heads"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto kv_heads, config.integer("num_key_value_heads"));
  model.num_kv_heads = kv_heads.value_or(model.num_heads);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto head_dim, config.integer("head_dim"));
  if (head_dim && *head_dim < 1) {
    return config.fail(StatusCode::kDataLoss, "head_dim", "expected 1..2^31-1, found {}", *head_dim);
  }
  model.head_dim = head_dim.value_or(0);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto max_position, config.integer("max_position_embeddings"));
  // The defaults of the config classes.
  model.max_position = max_position.value_or(model.architecture == Architecture::kLlama ? 2048 : 32768);
  return {};
}

Status read_flags(const JsonFields& config, ModelConfig& model) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto tied, config.boolean("tie_word_embeddings"));
  model.tie_word_embeddings = tied.value_or(false);  // the default of all three config classes
  LOCKSTEP_ASSIGN_OR_RETURN(const auto bias, config.boolean("attention_bias"));
  const bool is_qwen2 =
      model.architecture == Architecture::kQwen2;  // always q, k, v and never o, whatever the key says
  model.attention_bias = is_qwen2 || bias.value_or(false);
  model.attention_o_bias = !is_qwen2 && bias.value_or(false);
  model.qk_norm = model.architecture == Architecture::kQwen3;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto eps, config.number("rms_norm_eps"));
  model.rms_norm_eps = eps.value_or(1e-6);
  LOCKSTEP_ASSIGN_OR_RETURN(auto dtype, config.string("dtype"));
  if (!dtype) {
    LOCKSTEP_ASSIGN_OR_RETURN(dtype, config.string("torch_dtype"));
  }
  model.dtype = dtype.value_or("");
  LOCKSTEP_ASSIGN_OR_RETURN(model.bos_token_id, config.token_id("bos_token_id"));
  LOCKSTEP_ASSIGN_OR_RETURN(model.eos_token_ids, config.token_ids("eos_token_id"));
  return {};
}

}  // namespace

Expected<ModelConfig> parse_model_config(std::string_view text, std::string source) {
  source = printable(source, 4096);
  LOCKSTEP_ASSIGN_OR_RETURN(const json document, parse_json_object(text, source));
  const JsonFields config(document, source);
  ModelConfig model;
  model.source = source;
  LOCKSTEP_ASSIGN_OR_RETURN(model.architecture, read_architecture(config));
  LOCKSTEP_RETURN_IF_ERROR(read_sizes(config, model));
  LOCKSTEP_RETURN_IF_ERROR(refuse_unsupported(config, model.num_layers));
  LOCKSTEP_ASSIGN_OR_RETURN(model.quantization, read_quantization(config));
  LOCKSTEP_RETURN_IF_ERROR(read_flags(config, model));
  LOCKSTEP_ASSIGN_OR_RETURN(model.rope, read_rope(config, model.max_position));
  LOCKSTEP_RETURN_IF_ERROR(finish_config(model, /*qwen3_default=*/true));
  return model;
}

Expected<ModelConfig> load_model_config(const std::filesystem::path& config_json) {
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, read_text_file(config_json, kMaxConfigBytes));
  return parse_model_config(text, config_json.string());
}

}  // namespace lockstep::files
