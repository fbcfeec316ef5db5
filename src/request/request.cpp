// SPDX-License-Identifier: Apache-2.0
#include "request/request.h"

namespace lockstep::request {
namespace {

constexpr int kMaxLogprobs = 20;

// Written as "not inside" so that NaN is refused too.
Status check_range(std::string_view field, double value, double low, double high) {
  if (!(value >= low && value <= high))
    return invalid_argument("{} is {}, must be in [{}, {}]", field, value, low, high);
  return {};
}

Status check_range_above(std::string_view field, double value, double low, double high) {
  if (!(value > low && value <= high))
    return invalid_argument("{} is {}, must be in ({}, {}]", field, value, low, high);
  return {};
}

Status check_id(std::string_view field, int64_t id, int64_t vocab_size) {
  if (id < 0 || id >= vocab_size) {
    return invalid_argument("{} has token id {}, must be in [0, {})", field, id, vocab_size);
  }
  return {};
}

Status check_logprobs(std::string_view field, const std::optional<int>& value) {
  if (value && (*value < 0 || *value > kMaxLogprobs)) {
    return invalid_argument("{} is {}, must be in [0, {}]", field, *value, kMaxLogprobs);
  }
  return {};
}

Status check_lengths(const SamplingParams& params) {
  const int64_t least = params.prompt_logprobs ? 0 : 1;
  if (params.max_tokens < least)
    return invalid_argument("max_tokens is {}, must be at least {}", params.max_tokens, least);
  if (params.min_tokens < 0 || params.min_tokens > params.max_tokens) {
    return invalid_argument("min_tokens is {}, must be in [0, max_tokens = {}]", params.min_tokens, params.max_tokens);
  }
  return {};
}

Status check_ids(const SamplingParams& params, int64_t vocab_size) {
  for (const auto& [id, bias] : params.logit_bias) {
    LOCKSTEP_RETURN_IF_ERROR(check_id("logit_bias", id, vocab_size));
    LOCKSTEP_RETURN_IF_ERROR(check_range("logit_bias value", bias, -100.0, 100.0));
  }
  for (int32_t id : params.stop_token_ids) LOCKSTEP_RETURN_IF_ERROR(check_id("stop_token_ids", id, vocab_size));
  return {};
}

}  // namespace

Status validate(const SamplingParams& params, int64_t vocab_size) {
  LOCKSTEP_RETURN_IF_ERROR(check_range("temperature", params.temperature, 0.0, 2.0));
  LOCKSTEP_RETURN_IF_ERROR(check_range_above("top_p", params.top_p, 0.0, 1.0));
  if (params.top_k < -1) return invalid_argument("top_k is {}, must be at least -1", params.top_k);
  LOCKSTEP_RETURN_IF_ERROR(check_range("min_p", params.min_p, 0.0, 1.0));
  LOCKSTEP_RETURN_IF_ERROR(check_range("presence_penalty", params.presence_penalty, -2.0, 2.0));
  LOCKSTEP_RETURN_IF_ERROR(check_range("frequency_penalty", params.frequency_penalty, -2.0, 2.0));
  LOCKSTEP_RETURN_IF_ERROR(check_range_above("repetition_penalty", params.repetition_penalty, 0.0, 2.0));
  if (params.choice < 0) return invalid_argument("choice is {}, must be at least 0", params.choice);
  LOCKSTEP_RETURN_IF_ERROR(check_lengths(params));
  LOCKSTEP_RETURN_IF_ERROR(check_ids(params, vocab_size));
  LOCKSTEP_RETURN_IF_ERROR(check_logprobs("logprobs", params.logprobs));
  return check_logprobs("prompt_logprobs", params.prompt_logprobs);
}

std::string_view to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone:
      return "none";
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kDeadline:
      return "deadline";
    case FinishReason::kError:
      return "error";
  }
  return "unknown";
}

}  // namespace lockstep::request
