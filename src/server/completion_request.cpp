// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "server/requests.h"

namespace lockstep::server {

namespace {

constexpr const char* kPromptTypes =
    "must be a string, an array of strings, an array of token ids or an array of such arrays";

void read_ids(FieldReader& reader, const Json& ids, int64_t vocab_size, std::vector<int32_t>& out) {
  if (ids.empty()) return reader.fail("prompt", "must not be empty");
  for (const Json& id : ids) {
    const bool inside = id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(vocab_size);
    if (!inside) {
      return reader.fail("prompt", id.is_number() ? fmt::format("has a token id outside 0..{}", vocab_size - 1)
                                                  : std::string(kPromptTypes));
    }
    out.push_back(id.get<int32_t>());
  }
}

std::vector<Prompt> read_prompts(FieldReader& reader, int64_t vocab_size) {
  const Json* value = reader.get("prompt");
  if (value == nullptr) {
    reader.fail("prompt", "is required");
    return {};
  }
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) {
    reader.fail("prompt", kPromptTypes);
    return {};
  }
  if (value->empty()) reader.fail("prompt", "must not be empty");
  std::vector<Prompt> prompts;
  const bool strings = !value->empty() && value->front().is_string();
  const bool lists = !value->empty() && value->front().is_array();
  if (!strings && !lists) {
    read_ids(reader, *value, vocab_size, std::get<1>(prompts.emplace_back(std::vector<int32_t>())));
    return prompts;
  }
  for (const Json& item : *value) {
    if (strings && item.is_string()) {
      prompts.emplace_back(item.get<std::string>());
    } else if (lists && item.is_array()) {
      read_ids(reader, item, vocab_size, std::get<1>(prompts.emplace_back(std::vector<int32_t>())));
    } else {
      reader.fail("prompt", kPromptTypes);
    }
    if (!reader.ok()) break;
  }
  return prompts;
}

void read_logprobs(FieldReader& reader, std::optional<int>& logprobs) {
  const Json* value = reader.get("logprobs");
  if (value == nullptr || *value == Json(false)) return;
  if (!value->is_number_unsigned() || value->get<uint64_t>() > 20)
    return reader.fail("logprobs", "must be an integer in 0..20");
  logprobs = value->get<int>();
}

/// max_tokens 0 only scores a prompt.
void check_zero_tokens(FieldReader& reader, CompletionRequest& request) {
  request::SamplingParams& sampling = request.params.sampling;
  if (request.params.max_tokens == 0 && !request.echo && !sampling.prompt_logprobs) {
    reader.fail("max_tokens", "must be at least 1 (0 only with echo or prompt_logprobs)");
  }
}

}  // namespace

ApiResult<CompletionRequest> parse_completion_request(const Json& body, const ModelInfo& info) {
  FieldReader reader(body);
  CompletionRequest request;
  request.params = read_generation_params(reader, info);
  request.prompts = read_prompts(reader, info.vocab_size);
  reader.boolean("echo", request.echo);
  reader.boolean("add_special_tokens", request.add_special_tokens);
  read_logprobs(reader, request.params.sampling.logprobs);
  std::optional<int64_t> best_of;
  reader.integer("best_of", best_of, 1, request.params.n);
  reader.refuse("suffix", {""});
  const int64_t choices = static_cast<int64_t>(request.prompts.size()) * request.params.n;
  if (choices > info.max_choices)
    reader.fail("n", fmt::format("times the number of prompts is {}, at most {}", choices, info.max_choices));
  if (request.params.stream && request.params.sampling.prompt_logprobs)
    reader.fail("prompt_logprobs", "is not supported with stream");
  check_zero_tokens(reader, request);
  if (auto error = reader.finish()) return tl::unexpected(*std::move(error));
  if (auto error = check_model(request.params.model, info)) return tl::unexpected(*std::move(error));
  return request;
}

}  // namespace lockstep::server
