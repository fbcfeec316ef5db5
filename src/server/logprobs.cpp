// SPDX-License-Identifier: Apache-2.0
#include "server/logprobs.h"

#include <algorithm>
#include <cmath>

namespace lockstep::server {

namespace {

using request::TokenLogprobs;

/// JSON has no infinities: a token that the model rules out gets vLLM's -9999; an unknown value is null.
Json number(float logprob) {
  if (std::isnan(logprob)) return nullptr;
  return static_cast<double>(std::clamp(logprob, -9999.0f, 0.0f));
}

Json bytes_of(const std::string& token) {
  Json out = Json::array();
  for (char c : token) out.push_back(static_cast<unsigned char>(c));
  return out;
}

Json chat_entry(const text::TextModel& text, int32_t id, float logprob) {
  return Json{{"token", text.token_text(id)}, {"logprob", number(logprob)}, {"bytes", bytes_of(text.token_bytes(id))}};
}

int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

/// The best tokens by text, and the chosen one, as OpenAI does. Of tokens with equal text the first, so the best,
/// stays.
Json top_by_text(const text::TextModel& text, int32_t id, const TokenLogprobs& logprobs) {
  if (std::isnan(logprobs.logprob)) return nullptr;
  Json out = Json::object();
  for (const auto& [top_id, logprob] : logprobs.top) out.emplace(text.token_text(top_id), number(logprob));
  out.emplace(text.token_text(id), number(logprobs.logprob));
  return out;
}

class CompletionColumns {
 public:
  explicit CompletionColumns(const text::TextModel& text) : text_(text) {}

  void add(int32_t id, const TokenLogprobs& logprobs, int64_t offset) {
    tokens_.push_back(text_.token_text(id));
    values_.push_back(number(logprobs.logprob));
    tops_.push_back(top_by_text(text_, id, logprobs));
    offsets_.push_back(offset);
  }
  Json take() {
    return Json{{"tokens", std::move(tokens_)},
                {"token_logprobs", std::move(values_)},
                {"top_logprobs", std::move(tops_)},
                {"text_offset", std::move(offsets_)}};
  }

 private:
  const text::TextModel& text_;
  Json tokens_ = Json::array(), values_ = Json::array(), tops_ = Json::array(), offsets_ = Json::array();
};

}  // namespace

Json completion_logprobs(const GenerationPlan& plan, const text::TextModel& text, const ChoiceDelta& delta) {
  const PlannedPrompt& prompt = plan.prompts[delta.prompt];
  CompletionColumns columns(text);
  if (plan.echo && delta.first) {
    auto pieces = text.make_stream(
        {.stop = {}, .include_stop_str_in_output = false, .skip_special_tokens = false, .min_tokens = 0});
    for (size_t i = 0; i < prompt.ids.size(); ++i) {
      request::Event event;
      event.new_token_ids = {prompt.ids[i]};
      const text::OutputDelta piece = pieces.append(event);
      columns.add(prompt.ids[i], i < delta.prompt_logprobs.size() ? delta.prompt_logprobs[i] : TokenLogprobs{},
                  piece.tokens.front().text_offset);
    }
  }
  const int64_t start = characters(prompt.text);
  for (const text::OutputToken& token : delta.output.tokens)
    columns.add(token.id, token.logprobs, start + token.text_offset);
  return columns.take();
}

Json chat_logprobs(const GenerationPlan&, const text::TextModel& text, const ChoiceDelta& delta) {
  Json content = Json::array();
  for (const text::OutputToken& token : delta.output.tokens) {
    Json entry = chat_entry(text, token.id, token.logprobs.logprob);
    entry["top_logprobs"] = Json::array();
    for (const auto& [id, logprob] : token.logprobs.top) entry["top_logprobs"].push_back(chat_entry(text, id, logprob));
    content.push_back(std::move(entry));
  }
  return Json{{"content", std::move(content)}, {"refusal", nullptr}};
}

Json prompt_logprobs(const GenerationPlan& plan, const text::TextModel& text, const ChoiceDelta& delta) {
  const std::vector<int32_t>& ids = plan.prompts[delta.prompt].ids;
  Json out = Json::array();
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i >= delta.prompt_logprobs.size() || std::isnan(delta.prompt_logprobs[i].logprob)) {
      out.push_back(nullptr);
      continue;
    }
    const TokenLogprobs& logprobs = delta.prompt_logprobs[i];
    Json entry = Json::object();
    entry[std::to_string(ids[i])] = Json{
        {"logprob", number(logprobs.logprob)}, {"rank", logprobs.rank}, {"decoded_token", text.token_text(ids[i])}};
    int rank = 0;
    for (const auto& [id, logprob] : logprobs.top) {
      entry.emplace(std::to_string(id),
                    Json{{"logprob", number(logprob)}, {"rank", ++rank}, {"decoded_token", text.token_text(id)}});
    }
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace lockstep::server
