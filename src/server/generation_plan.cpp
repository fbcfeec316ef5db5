// SPDX-License-Identifier: Apache-2.0
#include "server/generation_plan.h"

#include <chrono>
#include <limits>
#include <random>
#include <utility>

namespace lockstep::server {

namespace {

std::string new_id(const char* prefix) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}-{:016x}{:016x}", prefix, random(), random());
}

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Whatever a prompt makes tokenizer or template refuse is the request's fault.
ApiError prompt_error(const Status& status, const char* field) {
  if (status.code() == StatusCode::kInternal) return api_error(status);
  return bad_request(field, status.message());
}

GenerationPlan start_plan(ApiKind kind, GenerationParams params, const ModelInfo& info) {
  GenerationPlan plan;
  plan.kind = kind;
  plan.id = new_id(kind == ApiKind::kChat ? "chatcmpl" : "cmpl");
  plan.model = params.model.empty() ? info.names.front() : params.model;
  plan.created = unix_seconds();
  plan.params = std::move(params);
  return plan;
}

}  // namespace

ApiResult<GenerationPlan> plan_completion(CompletionRequest request, const ModelInfo& info,
                                          const text::TextModel& text) {
  GenerationPlan plan = start_plan(ApiKind::kCompletion, std::move(request.params), info);
  plan.echo = request.echo;
  for (Prompt& prompt : request.prompts) {
    PlannedPrompt planned;
    if (const auto* string = std::get_if<std::string>(&prompt)) {
      auto ids = text.encode_prompt(*string, request.add_special_tokens);
      if (!ids) return tl::unexpected(prompt_error(ids.error(), "prompt"));
      planned.ids = *std::move(ids);
      if (request.echo) planned.text = *string;
    } else {
      planned.ids = std::get<std::vector<int32_t>>(std::move(prompt));
      if (request.echo) planned.text = text.decode(planned.ids, false);
    }
    auto max_tokens = resolve_max_tokens(plan.params, info, static_cast<int64_t>(planned.ids.size()), 16, "prompt");
    if (!max_tokens) return tl::unexpected(std::move(max_tokens).error());
    planned.max_tokens = *max_tokens;
    plan.prompts.push_back(std::move(planned));
  }
  return plan;
}

ApiResult<GenerationPlan> plan_chat(ChatRequest request, const ModelInfo& info, const text::TextModel& text) {
  GenerationPlan plan = start_plan(ApiKind::kChat, std::move(request.params), info);
  auto ids = text.encode_chat(std::move(request.input));
  if (!ids) return tl::unexpected(prompt_error(ids.error(), "messages"));
  const auto unlimited = std::numeric_limits<int64_t>::max();
  auto max_tokens = resolve_max_tokens(plan.params, info, static_cast<int64_t>(ids->size()), unlimited, "messages");
  if (!max_tokens) return tl::unexpected(std::move(max_tokens).error());
  plan.prompts.push_back({*std::move(ids), "", *max_tokens});
  return plan;
}

request::Request engine_request(const GenerationPlan& plan, size_t prompt, int64_t choice) {
  request::Request request;
  request.prompt_token_ids = plan.prompts[prompt].ids;
  request.sampling = plan.params.sampling;
  request.sampling.choice = static_cast<int32_t>(choice);
  request.sampling.max_tokens = plan.prompts[prompt].max_tokens;
  // An echoed prompt comes with logprobs if the answer does; the engine takes max_tokens 0 only with prompt_logprobs.
  if (plan.echo && request.sampling.logprobs)
    request.sampling.prompt_logprobs =
        std::max(*request.sampling.logprobs, request.sampling.prompt_logprobs.value_or(0));
  if (request.sampling.max_tokens == 0 && !request.sampling.prompt_logprobs) request.sampling.prompt_logprobs = 0;
  request.priority = plan.params.priority;
  request.cache_salt = plan.params.cache_salt;
  request.timeout_s = plan.params.timeout_s;
  return request;
}

}  // namespace lockstep::server
