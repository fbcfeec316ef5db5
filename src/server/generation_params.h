// SPDX-License-Identifier: Apache-2.0
// The fields that /v1/completions and /v1/chat/completions share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "request/request.h"
#include "server/field_reader.h"
#include "server/model_info.h"
#include "text/output_stream.h"

namespace lockstep::server {

/// Checked values; what the request leaves open is filled from generation_config.json, then from OpenAI's defaults.
struct GenerationParams {
  std::string model;                 ///< as the request names it; empty: not named
  request::SamplingParams sampling;  ///< max_tokens is set later, when the prompt's length is known
  std::optional<int64_t> max_tokens;
  std::string max_tokens_field = "max_tokens";  ///< where max_tokens came from, for messages
  int64_t n = 1;
  text::OutputOptions output;
  bool stream = false;
  bool include_usage = false;     ///< one last chunk with usage
  bool continuous_usage = false;  ///< usage in every chunk (needs include_usage)
  int32_t priority = 0;
  std::string cache_salt;
  std::optional<double> timeout_s;
};

/// Reads the shared fields, and refuses by name those that no endpoint supports yet. Errors stay in the reader.
GenerationParams read_generation_params(FieldReader& reader, const ModelInfo& info);

/// 404 model_not_found unless `model` is empty or one of the served names.
std::optional<ApiError> check_model(const std::string& model, const ModelInfo& info);

/// Sets sampling.max_tokens for one prompt: refuses prompts without tokens, prompts that leave no room in the context,
/// and a max_tokens that doesn't fit; an absent one becomes `absent`, or what fits if that is less.
ApiResult<int64_t> resolve_max_tokens(const GenerationParams& params, const ModelInfo& info, int64_t prompt_tokens,
                                      int64_t absent, const std::string& prompt_field);

/// Values as they take effect, for the debug log.
std::string to_string(const request::SamplingParams& params);

}  // namespace lockstep::server
