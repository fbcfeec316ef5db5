// SPDX-License-Identifier: Apache-2.0
#include <system_error>

#include "files/json_fields.h"
#include "files/mapped_file.h"
#include "files/model_config.h"

namespace lockstep::files {
namespace {

constexpr size_t kMaxBytes = 16 << 20;

/// A number in [low, high], or absent.
Expected<std::optional<double>> number_in(const JsonFields& fields, const char* field, double low, double high) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto value, fields.number(field));
  if (value && (*value < low || *value > high)) {
    return fields.fail(StatusCode::kDataLoss, field, "expected {}..{}, found {}", low, high, *value);
  }
  return value;
}

}  // namespace

Expected<GenerationConfig> load_generation_config(const std::filesystem::path& generation_config_json) {
  std::error_code code;
  GenerationConfig config;
  if (!std::filesystem::exists(generation_config_json, code)) return config;
  const std::string source = printable(generation_config_json.string(), 4096);
  LOCKSTEP_ASSIGN_OR_RETURN(const std::string text, read_text_file(generation_config_json, kMaxBytes));
  LOCKSTEP_ASSIGN_OR_RETURN(const nlohmann::json document, parse_json_object(text, source));
  const JsonFields fields(document, source);
  constexpr double kMaxPenalty = 1e6;
  LOCKSTEP_ASSIGN_OR_RETURN(config.do_sample, fields.boolean("do_sample"));
  LOCKSTEP_ASSIGN_OR_RETURN(config.temperature, number_in(fields, "temperature", 0.0, kMaxPenalty));
  LOCKSTEP_ASSIGN_OR_RETURN(config.top_p, number_in(fields, "top_p", 0.0, 1.0));
  LOCKSTEP_ASSIGN_OR_RETURN(config.min_p, number_in(fields, "min_p", 0.0, 1.0));
  LOCKSTEP_ASSIGN_OR_RETURN(config.repetition_penalty, number_in(fields, "repetition_penalty", 0.0, kMaxPenalty));
  LOCKSTEP_ASSIGN_OR_RETURN(config.top_k, fields.integer("top_k"));
  if (config.top_k && *config.top_k < -1) {
    return fields.fail(StatusCode::kDataLoss, "top_k", "expected -1 or more, found {}", *config.top_k);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(config.eos_token_ids, fields.token_ids("eos_token_id"));
  LOCKSTEP_ASSIGN_OR_RETURN(config.bos_token_id, fields.token_id("bos_token_id"));
  return config;
}

}  // namespace lockstep::files
