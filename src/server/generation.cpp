// SPDX-License-Identifier: Apache-2.0
#include "server/generation.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace lockstep::server {

using request::FinishReason;

bool is_failure(FinishReason reason) {
  return reason == FinishReason::kCancelled || reason == FinishReason::kDeadline || reason == FinishReason::kError;
}

Generation::Generation(GenerationPlan plan, EnginePort& port, const text::TextModel& text,
                       std::shared_ptr<Mailbox> mailbox, RequestHistograms& histograms)
    : plan_(std::move(plan)),
      port_(port),
      text_(text),
      mailbox_(std::move(mailbox)),
      histograms_(histograms),
      cached_tokens_(plan_.prompts.size(), 0) {}

Generation::~Generation() { mailbox_->close(); }

std::optional<ApiError> Generation::submit() {
  for (size_t prompt = 0; prompt < plan_.prompts.size(); ++prompt) {
    for (int64_t n = 0; n < plan_.params.n; ++n) {
      const size_t index = choices_.size();
      request::Request request = engine_request(plan_, prompt, n);
      log_debug("request {} choice {}: prompt_tokens={} {}", plan_.id, index, request.prompt_token_ids.size(),
                to_string(request.sampling));
      choices_.push_back({nullptr, text_.make_stream(plan_.params.output),
                          RequestTimes(histograms_, request.prompt_token_ids.size(), RequestTimes::Clock::now())});
      auto running = port_.submit(std::move(request), [mailbox = mailbox_, index](request::Event event) {
        mailbox->push(index, std::move(event));
      });
      if (!running) {
        choices_.clear();
        return api_error(running.error());
      }
      choices_.back().running = *std::move(running);
      ++open_choices_;
    }
  }
  return std::nullopt;
}

std::vector<ChoiceDelta> Generation::take() {
  std::vector<ChoiceDelta> deltas;
  for (Mailbox::Letter& letter : mailbox_->take()) {
    Choice& choice = choices_[letter.choice];
    if (choice.stream.ended() || error_) continue;
    const auto n = static_cast<size_t>(plan_.params.n);
    ChoiceDelta delta{static_cast<int64_t>(letter.choice),
                      letter.choice / n,
                      !choice.started,
                      std::move(letter.event.prompt_logprobs),
                      {}};
    choice.started = true;
    choice.times.event(letter.event, letter.when);
    cached_tokens_[delta.prompt] =
        std::max(cached_tokens_[delta.prompt], letter.choice % n == 0 ? letter.event.num_cached_tokens : 0);
    delta.output = choice.stream.append(letter.event);
    const FinishReason reason = delta.output.finish_reason;
    if (is_failure(reason)) error_ = run_error(reason, delta.output.error);
    if (choice.stream.ended()) {
      if (!is_failure(reason)) choice.times.ended();
      choice.running.reset();  // a stop string is unknown to the engine: it would go on
      --open_choices_;
    }
    deltas.push_back(std::move(delta));
  }
  if (error_) {
    for (Choice& choice : choices_) choice.running.reset();
  }
  return deltas;
}

Usage Generation::usage() const {
  Usage usage;
  for (const PlannedPrompt& prompt : plan_.prompts) usage.prompt_tokens += static_cast<int64_t>(prompt.ids.size());
  for (int64_t cached : cached_tokens_) usage.cached_tokens += cached;
  for (const Choice& choice : choices_) usage.completion_tokens += choice.stream.num_tokens();
  return usage;
}

}  // namespace lockstep::server
