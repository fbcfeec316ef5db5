// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "server/requests.h"

namespace lockstep::server {

namespace {

/// messages, chat_template_kwargs, add_generation_prompt, continue_final_message. The messages themselves are checked
/// by text/.
void read_chat_input(FieldReader& reader, text::ChatInput& input) {
  const Json* messages = reader.get("messages");
  if (messages == nullptr) {
    reader.fail("messages", "is required");
  } else if (!messages->is_array() || messages->empty()) {
    reader.fail("messages", "must be an array of at least one message");
  } else {
    input.messages = *messages;
  }
  std::optional<bool> generation_prompt;
  if (const Json* value = reader.get("add_generation_prompt")) {
    if (value->is_boolean())
      generation_prompt = value->get<bool>();
    else
      reader.fail("add_generation_prompt", "must be true or false");
  }
  reader.boolean("continue_final_message", input.continue_final_message);
  if (input.continue_final_message && generation_prompt == true) {
    reader.fail("add_generation_prompt", "must not be true together with continue_final_message");
  }
  input.add_generation_prompt = generation_prompt.value_or(!input.continue_final_message);
  if (const Json* kwargs = reader.get("chat_template_kwargs")) {
    if (kwargs->is_object())
      input.chat_template_kwargs = *kwargs;
    else
      reader.fail("chat_template_kwargs", "must be an object");
  }
  // Answers are not searched for tool calls yet, so offering tools would only lead to calls that nobody sees.
  reader.refuse("tools", {Json::array()});
  for (const char* name : {"chat_template", "documents", "mm_processor_kwargs"}) reader.refuse(name);
}

void read_max_tokens(FieldReader& reader, GenerationParams& params) {
  std::optional<int64_t> completion_tokens;
  reader.integer("max_completion_tokens", completion_tokens, 0, std::numeric_limits<int32_t>::max());
  if (!completion_tokens) return;
  if (params.max_tokens && params.max_tokens != completion_tokens)
    reader.fail("max_completion_tokens", "contradicts max_tokens");
  params.max_tokens = completion_tokens;
  params.max_tokens_field = "max_completion_tokens";
}

void read_logprobs(FieldReader& reader, request::SamplingParams& sampling) {
  bool logprobs = false;
  std::optional<int64_t> top;
  reader.boolean("logprobs", logprobs);
  reader.integer("top_logprobs", top, 0, 20);
  if (logprobs) sampling.logprobs = static_cast<int>(top.value_or(0));
  if (!logprobs && top.value_or(0) > 0) reader.fail("top_logprobs", "is only allowed with logprobs true");
}

void refuse_unsupported(FieldReader& reader) {
  reader.refuse("tool_choice", {"none"});
  reader.refuse("parallel_tool_calls", {true});
  reader.refuse("modalities", {Json::array({"text"})});
  reader.refuse("include_reasoning", {true});
  reader.refuse("separate_reasoning", {true});
  reader.refuse("add_special_tokens", {false});
  reader.refuse("echo", {false});
  reader.refuse("best_of", {1});
  for (const char* name :
       {"functions", "function_call", "audio", "prediction", "web_search_options", "reasoning_effort", "verbosity"}) {
    reader.refuse(name);
  }
}

}  // namespace

ApiResult<ChatRequest> parse_chat_request(const Json& body, const ModelInfo& info) {
  FieldReader reader(body);
  ChatRequest request;
  request.params = read_generation_params(reader, info);
  read_max_tokens(reader, request.params);
  read_chat_input(reader, request.input);
  read_logprobs(reader, request.params.sampling);
  refuse_unsupported(reader);
  const bool scores = request.params.sampling.prompt_logprobs.has_value();
  if (request.params.stream && scores) reader.fail("prompt_logprobs", "is not supported with stream");
  if (request.params.max_tokens == 0 && !scores) {
    reader.fail(request.params.max_tokens_field, "must be at least 1 (0 only with prompt_logprobs)");
  }
  if (auto error = reader.finish()) return tl::unexpected(*std::move(error));
  if (auto error = check_model(request.params.model, info)) return tl::unexpected(*std::move(error));
  return request;
}

ApiResult<TokenizeRequest> parse_tokenize_request(const Json& body) {
  FieldReader reader(body);
  TokenizeRequest request;
  std::optional<std::string> model, prompt;
  reader.text("model", model);
  request.model = model.value_or("");
  reader.text("prompt", prompt);
  reader.boolean("return_token_strs", request.return_token_strs);
  if (prompt) {
    request.input = *std::move(prompt);
    reader.boolean("add_special_tokens", request.add_special_tokens);
    if (reader.get("messages") != nullptr) reader.fail("messages", "must not be given together with prompt");
  } else {
    // No special tokens here: a chat template writes its own.
    reader.refuse("add_special_tokens", {false});
    read_chat_input(reader, request.input.emplace<text::ChatInput>());
  }
  if (auto error = reader.finish()) return tl::unexpected(*std::move(error));
  return request;
}

ApiResult<DetokenizeRequest> parse_detokenize_request(const Json& body) {
  FieldReader reader(body);
  DetokenizeRequest request;
  std::optional<std::string> model;
  reader.text("model", model);
  request.model = model.value_or("");
  const bool given = body.is_object() && body.contains("tokens") && !body["tokens"].is_null();
  if (!given) reader.fail("tokens", "is required");
  reader.integers("tokens", request.tokens, 0, std::numeric_limits<int32_t>::max());
  if (auto error = reader.finish()) return tl::unexpected(*std::move(error));
  return request;
}

}  // namespace lockstep::server
