// SPDX-License-Identifier: Apache-2.0
// Runs a plan: one engine request a choice, events turned into text. Lives on one connection's strand.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/engine_port.h"
#include "server/generation_plan.h"
#include "server/mailbox.h"
#include "server/request_metrics.h"
#include "text/output_stream.h"

namespace lockstep::server {

/// True for the reasons that are told by the error object, not as finish_reason (api.md, decision 6).
bool is_failure(request::FinishReason reason);

struct Usage {
  int64_t prompt_tokens = 0;      ///< of all prompts, each counted once
  int64_t completion_tokens = 0;  ///< of all choices so far
  int64_t cached_tokens = 0;      ///< prompt tokens out of the prefix cache, each prompt counted once
};

/// What is new of one choice.
struct ChoiceDelta {
  int64_t index = 0;
  size_t prompt = 0;                                    ///< index into GenerationPlan::prompts
  bool first = false;                                   ///< the choice's first delta
  std::vector<request::TokenLogprobs> prompt_logprobs;  ///< with the first delta, if they were asked for
  text::OutputDelta output;
};

class Generation final {
 public:
  /// `port`, `text` and `histograms` must outlive it.
  Generation(GenerationPlan plan, EnginePort& port, const text::TextModel& text, std::shared_ptr<Mailbox> mailbox,
             RequestHistograms& histograms);
  /// Ends what still runs.
  ~Generation();

  /// All choices or none: if one is refused the others are ended again.
  std::optional<ApiError> submit();
  /// What has arrived since the last call, in the order of arrival. A run that ends with an error ends all of them: see
  /// error().
  std::vector<ChoiceDelta> take();
  bool done() const { return error_.has_value() || open_choices_ == 0; }
  const std::optional<ApiError>& error() const { return error_; }
  Usage usage() const;
  const GenerationPlan& plan() const { return plan_; }

 private:
  struct Choice {
    std::unique_ptr<RunningRequest> running;
    text::OutputStream stream;
    RequestTimes times;
    bool started = false;
  };

  GenerationPlan plan_;
  EnginePort& port_;
  const text::TextModel& text_;
  std::shared_ptr<Mailbox> mailbox_;
  RequestHistograms& histograms_;
  std::vector<Choice> choices_;
  std::vector<int64_t> cached_tokens_;  // of each prompt
  size_t open_choices_ = 0;
  std::optional<ApiError> error_;
};

}  // namespace lockstep::server
