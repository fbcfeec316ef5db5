// SPDX-License-Identifier: Apache-2.0
#include "server/answer.h"

#include <iterator>
#include <utility>

#include "server/logprobs.h"

namespace lockstep::server {

namespace {

Json finish_reason(const text::OutputDelta& output) {
  return output.finish_reason == request::FinishReason::kNone ? Json(nullptr)
                                                              : Json(request::to_string(output.finish_reason));
}

/// vLLM's: the stop string, or the id of the token that ended the run.
Json stop_reason(const text::OutputDelta& output) {
  if (output.stop_string) return *output.stop_string;
  if (output.stop_token) return *output.stop_token;
  return nullptr;
}

}  // namespace

void merge(ChoiceDelta& into, ChoiceDelta&& later) {
  into.output.text += later.output.text;
  std::move(later.output.tokens.begin(), later.output.tokens.end(), std::back_inserter(into.output.tokens));
  into.output.finish_reason = later.output.finish_reason;
  into.output.stop_string = std::move(later.output.stop_string);
  into.output.stop_token = later.output.stop_token;
  if (into.prompt_logprobs.empty()) into.prompt_logprobs = std::move(later.prompt_logprobs);
}

Json to_json(const Usage& usage) {
  return Json{{"prompt_tokens", usage.prompt_tokens},
              {"completion_tokens", usage.completion_tokens},
              {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
              {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
              {"completion_tokens_details", {{"reasoning_tokens", 0}}}};
}

Json AnswerWriter::head(bool chunk) const {
  const char* object = is_chat() ? (chunk ? "chat.completion.chunk" : "chat.completion") : "text_completion";
  return Json{{"id", plan_.id}, {"object", object}, {"created", plan_.created}, {"model", plan_.model}};
}

void AnswerWriter::set_chunk_usage(Json& chunk, const Usage& usage) const {
  if (!plan_.params.include_usage) return;
  chunk["usage"] = plan_.params.continuous_usage ? to_json(usage) : Json(nullptr);
}

std::string AnswerWriter::visible_text(const ChoiceDelta& delta) const {
  return delta.first ? plan_.prompts[delta.prompt].text + delta.output.text : delta.output.text;
}

Json AnswerWriter::choice(const ChoiceDelta& delta, bool chunk) const {
  Json out{{"index", delta.index}};
  const bool has_logprobs = plan_.params.sampling.logprobs.has_value();
  if (!is_chat()) {
    out["text"] = visible_text(delta);
    out["logprobs"] = has_logprobs ? completion_logprobs(plan_, text_, delta) : Json(nullptr);
  } else {
    if (chunk) {
      out["delta"] = Json::object();
      if (!delta.output.text.empty()) out["delta"]["content"] = delta.output.text;
    } else {
      out["message"] = Json{{"role", "assistant"}, {"content", delta.output.text}, {"refusal", nullptr}};
    }
    out["logprobs"] = has_logprobs ? chat_logprobs(plan_, text_, delta) : Json(nullptr);
  }
  out["finish_reason"] = finish_reason(delta.output);
  out["stop_reason"] = stop_reason(delta.output);
  return out;
}

std::vector<std::string> AnswerWriter::chunks(const ChoiceDelta& delta, const Usage& usage) const {
  std::vector<std::string> out;
  if (is_chat() && delta.first) {
    Json chunk = head(true);
    chunk["choices"] = Json::array({Json{{"index", delta.index},
                                         {"delta", {{"role", "assistant"}, {"content", ""}}},
                                         {"logprobs", nullptr},
                                         {"finish_reason", nullptr}}});
    set_chunk_usage(chunk, usage);
    out.push_back(dump(chunk));
  }
  const bool ended = delta.output.finish_reason != request::FinishReason::kNone;
  const bool has_logprobs = plan_.params.sampling.logprobs.has_value() && !delta.output.tokens.empty();
  if (ended || has_logprobs || !visible_text(delta).empty()) {
    Json chunk = head(true);
    chunk["choices"] = Json::array({choice(delta, true)});
    set_chunk_usage(chunk, usage);
    out.push_back(dump(chunk));
  }
  return out;
}

std::string AnswerWriter::usage_chunk(const Usage& usage) const {
  Json chunk = head(true);
  chunk["choices"] = Json::array();
  chunk["usage"] = to_json(usage);
  return dump(chunk);
}

std::string AnswerWriter::answer(const std::vector<ChoiceDelta>& choices, const Usage& usage) const {
  Json out = head(false);
  out["choices"] = Json::array();
  for (const ChoiceDelta& delta : choices) {
    Json item = choice(delta, false);
    if (plan_.params.sampling.prompt_logprobs) {
      // vLLM's places: in each choice of a completion, once beside the choices of a chat.
      (is_chat() ? out : item)["prompt_logprobs"] = prompt_logprobs(plan_, text_, delta);
    }
    out["choices"].push_back(std::move(item));
  }
  out["usage"] = to_json(usage);
  return dump(out);
}

}  // namespace lockstep::server
