// SPDX-License-Identifier: Apache-2.0
// Semantics as transformers' modeling_rope_utils.py (standardize_rope_params and the _compute_* functions).
#include "files/rope_json.h"

#include <algorithm>

#include "files/mapped_file.h"

namespace lockstep::files {
namespace {

Expected<RopeType> read_type(const JsonFields& rope) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto type, rope.string("rope_type"));
  const char* field = type ? "rope_type" : "type";
  if (!type) {
    LOCKSTEP_ASSIGN_OR_RETURN(type, rope.string("type"));
  }
  if (!type || *type == "default") return RopeType::kDefault;
  if (*type == "linear") return RopeType::kLinear;
  if (*type == "llama3") return RopeType::kLlama3;
  if (*type == "yarn") return RopeType::kYarn;
  if (*type == "dynamic") return RopeType::kDynamic;
  if (*type == "longrope" || *type == "su") return RopeType::kLongRope;  // "su": its name in early files
  return rope.fail(StatusCode::kUnsupported, field,
                   "rope type \"{}\" is not supported (supported: default, linear, llama3, yarn, dynamic, longrope)",
                   printable(*type, 60));
}

/// Fields that rotate something else than the whole head in the usual way.
Status refuse_other_ropes(const JsonFields& fields) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto partial, fields.number("partial_rotary_factor"));
  if (partial && *partial != 1.0) {
    return fields.fail(StatusCode::kUnsupported, "partial_rotary_factor", "expected 1, found {}", *partial);
  }
  if (fields.find("mrope_section") != nullptr) {
    return fields.fail(StatusCode::kUnsupported, "mrope_section", "multimodal rope is not supported");
  }
  return {};
}

/// Assigns a number if the field is there.
Status read_into(const JsonFields& rope, const char* field, double& value) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto number, rope.number(field));
  if (number) value = *number;
  return {};
}

Status read_original_length(const JsonFields& fields, RopeConfig& rope) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto length, fields.integer("original_max_position_embeddings"));
  if (!length) return {};
  if (*length < 1) {
    return fields.fail(StatusCode::kDataLoss, "original_max_position_embeddings", "expected 1..2^31-1, found {}",
                       *length);
  }
  rope.original_max_position = *length;
  return {};
}

Status read_factor(const JsonFields& fields, int64_t max_position, RopeConfig& rope) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto factor, fields.number("factor"));
  if (factor) {
    rope.factor = *factor;
  } else if (rope.type == RopeType::kLongRope || (rope.type == RopeType::kYarn && rope.original_max_position > 0)) {
    const int64_t original = rope.original_max_position > 0 ? rope.original_max_position : max_position;
    rope.factor = static_cast<double>(max_position) / static_cast<double>(original);
  } else {
    return fields.fail(StatusCode::kDataLoss, "factor", "expected a number, found none");
  }
  return {};
}

Status read_llama3(const JsonFields& fields, RopeConfig& rope) {
  for (const char* field : {"low_freq_factor", "high_freq_factor"}) {
    if (fields.find(field) == nullptr)
      return fields.fail(StatusCode::kDataLoss, field, "expected a number, found none");
  }
  LOCKSTEP_RETURN_IF_ERROR(read_into(fields, "low_freq_factor", rope.low_freq_factor));
  return read_into(fields, "high_freq_factor", rope.high_freq_factor);
}

Status read_yarn(const JsonFields& fields, RopeConfig& rope) {
  LOCKSTEP_RETURN_IF_ERROR(read_into(fields, "beta_fast", rope.beta_fast));
  LOCKSTEP_RETURN_IF_ERROR(read_into(fields, "beta_slow", rope.beta_slow));
  LOCKSTEP_RETURN_IF_ERROR(read_into(fields, "mscale", rope.mscale));
  LOCKSTEP_RETURN_IF_ERROR(read_into(fields, "mscale_all_dim", rope.mscale_all_dim));
  LOCKSTEP_ASSIGN_OR_RETURN(rope.attention_factor, fields.number("attention_factor"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto truncate, fields.boolean("truncate"));
  rope.truncate = truncate.value_or(true);
  return {};
}

Status read_factor_list(const JsonFields& fields, const char* field, std::vector<float>& out) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto values, fields.numbers(field));
  if (!values) return fields.fail(StatusCode::kDataLoss, field, "expected a list of numbers, found none");
  out.assign(values->begin(), values->end());
  return {};
}

Status read_longrope(const JsonFields& fields, RopeConfig& rope) {
  rope.factor = std::max(rope.factor, 1.0);  // a context below the original length: no attention factor
  LOCKSTEP_ASSIGN_OR_RETURN(rope.attention_factor, fields.number("attention_factor"));
  LOCKSTEP_RETURN_IF_ERROR(read_factor_list(fields, "short_factor", rope.short_factors));
  return read_factor_list(fields, "long_factor", rope.long_factors);
}

/// The dictionary in use. rope_scaling wins where both are there, as in transformers 5.
Expected<std::optional<JsonFields>> find_dictionary(const JsonFields& config) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto older, config.object("rope_scaling"));
  if (older && config.find("rope_scaling")->empty()) older.reset();
  if (older) return older;
  return config.object("rope_parameters");
}

}  // namespace

Expected<RopeConfig> read_rope(const JsonFields& config, int64_t max_position) {
  RopeConfig rope;
  LOCKSTEP_RETURN_IF_ERROR(refuse_other_ropes(config));
  LOCKSTEP_RETURN_IF_ERROR(read_into(config, "rope_theta", rope.theta));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto parameters, config.object("rope_parameters"));
  if (parameters) LOCKSTEP_RETURN_IF_ERROR(read_into(*parameters, "rope_theta", rope.theta));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto dictionary, find_dictionary(config));
  if (!dictionary) return rope;

  for (const char* layer_type : {"full_attention", "sliding_attention"}) {
    if (dictionary->find(layer_type) != nullptr) {
      return dictionary->fail(StatusCode::kUnsupported, layer_type, "rope per layer type is not supported");
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(refuse_other_ropes(*dictionary));
  LOCKSTEP_RETURN_IF_ERROR(read_into(*dictionary, "rope_theta", rope.theta));
  LOCKSTEP_ASSIGN_OR_RETURN(rope.type, read_type(*dictionary));
  if (rope.type == RopeType::kDefault) return rope;
  if (rope.type != RopeType::kLinear && rope.type != RopeType::kDynamic) {
    LOCKSTEP_RETURN_IF_ERROR(read_original_length(*dictionary, rope));
    LOCKSTEP_RETURN_IF_ERROR(read_original_length(config, rope));  // wins, as in transformers 5
  }
  LOCKSTEP_RETURN_IF_ERROR(read_factor(*dictionary, max_position, rope));
  if (rope.type == RopeType::kLlama3) LOCKSTEP_RETURN_IF_ERROR(read_llama3(*dictionary, rope));
  if (rope.type == RopeType::kYarn) LOCKSTEP_RETURN_IF_ERROR(read_yarn(*dictionary, rope));
  if (rope.type == RopeType::kLongRope) LOCKSTEP_RETURN_IF_ERROR(read_longrope(*dictionary, rope));
  return rope;
}

}  // namespace lockstep::files
