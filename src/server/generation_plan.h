// SPDX-License-Identifier: Apache-2.0
// A checked request with its prompts as token ids: all that is left is to run it. Making one is the slow, CPU-bound
// part of a request (templates, tokenizing), done on the server's worker threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/requests.h"
#include "text/text_model.h"

namespace lockstep::server {

enum class ApiKind { kCompletion, kChat };

struct PlannedPrompt {
  std::vector<int32_t> ids;
  std::string text;        ///< what echo gives back; empty without echo
  int64_t max_tokens = 0;  ///< 0: score the prompt only
};

struct GenerationPlan {
  ApiKind kind = ApiKind::kCompletion;
  std::string id;       ///< "cmpl-..." or "chatcmpl-..."
  std::string model;    ///< the served name
  int64_t created = 0;  ///< Unix seconds
  GenerationParams params;
  std::vector<PlannedPrompt> prompts;  ///< choice c of prompt p has index p * n + c
  bool echo = false;
};

ApiResult<GenerationPlan> plan_completion(CompletionRequest request, const ModelInfo& info,
                                          const text::TextModel& text);
ApiResult<GenerationPlan> plan_chat(ChatRequest request, const ModelInfo& info, const text::TextModel& text);

/// The engine's request for one choice.
request::Request engine_request(const GenerationPlan& plan, size_t prompt, int64_t choice);

}  // namespace lockstep::server
