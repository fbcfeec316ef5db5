// SPDX-License-Identifier: Apache-2.0
// Runs a set of requests together and waits for all of them: the offline mode.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "request/request.h"

namespace lockstep::cli {

/// All events of one request, joined.
struct RequestResult {
  std::vector<int32_t> token_ids;
  std::vector<request::TokenLogprobs> logprobs;
  std::vector<request::TokenLogprobs> prompt_logprobs;
  request::FinishReason finish_reason = request::FinishReason::kNone;
  Status error;
  uint64_t seed = 0;
};

/// Submits all requests at once and blocks until each has ended; results in the same order. An error only if a request
/// was refused (the message names its index); one that ends with an error says so in its result. `before_submit`, if
/// given, is called with the index of each request before it is submitted, and may wait.
Expected<std::vector<RequestResult>> run_requests(engine::Engine& engine, std::vector<request::Request> requests,
                                                  const std::function<void(size_t)>& before_submit = {});

}  // namespace lockstep::cli
