// SPDX-License-Identifier: Apache-2.0
// Request bodies of the endpoints, checked field by field. A field that is not supported, or unknown, is a 400 that
// names it.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "server/generation_params.h"
#include "text/text_model.h"

namespace lockstep::server {

using Prompt = std::variant<std::string, std::vector<int32_t>>;  ///< text, or token ids inside the vocabulary

struct CompletionRequest {
  GenerationParams params;
  std::vector<Prompt> prompts;  ///< at least one; prompts x n within ModelInfo::max_choices
  bool echo = false;
  bool add_special_tokens = true;  ///< the tokenizer's BOS in front of text prompts, if it has one
};

struct ChatRequest {
  GenerationParams params;
  text::ChatInput input;
};

struct TokenizeRequest {
  std::string model;
  std::variant<std::string, text::ChatInput> input;
  bool add_special_tokens = true;
  bool return_token_strs = false;
};

struct DetokenizeRequest {
  std::string model;
  std::vector<int32_t> tokens;
};

ApiResult<CompletionRequest> parse_completion_request(const Json& body, const ModelInfo& info);
ApiResult<ChatRequest> parse_chat_request(const Json& body, const ModelInfo& info);
ApiResult<TokenizeRequest> parse_tokenize_request(const Json& body);
ApiResult<DetokenizeRequest> parse_detokenize_request(const Json& body);

}  // namespace lockstep::server
