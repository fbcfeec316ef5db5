// SPDX-License-Identifier: Apache-2.0
#include "cli/run_requests.h"

#include <condition_variable>
#include <iterator>
#include <mutex>

namespace lockstep::cli {
namespace {

/// Shared with the engine thread: outlives every handle in run_requests.
struct Collector {
  explicit Collector(size_t count) : results(count) {}

  void take(size_t index, request::Event event) {
    const std::lock_guard lock(mutex);
    RequestResult& result = results[index];
    result.token_ids.insert(result.token_ids.end(), event.new_token_ids.begin(), event.new_token_ids.end());
    std::move(event.logprobs.begin(), event.logprobs.end(), std::back_inserter(result.logprobs));
    if (!event.prompt_logprobs.empty()) result.prompt_logprobs = std::move(event.prompt_logprobs);
    result.seed = event.seed;
    if (event.finish_reason == request::FinishReason::kNone) return;
    result.finish_reason = event.finish_reason;
    result.error = std::move(event.error);
    ++ended;
    all_ended.notify_one();
  }

  std::mutex mutex;
  std::condition_variable all_ended;
  std::vector<RequestResult> results;
  size_t ended = 0;
};

}  // namespace

Expected<std::vector<RequestResult>> run_requests(engine::Engine& engine, std::vector<request::Request> requests,
                                                  const std::function<void(size_t)>& before_submit) {
  const auto collector = std::make_shared<Collector>(requests.size());
  std::vector<engine::RequestHandle> handles;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (before_submit) before_submit(i);
    auto handle = engine.submit(std::move(requests[i]),
                                [collector, i](request::Event event) { collector->take(i, std::move(event)); });
    if (!handle) return unexpected(handle.error().with_context(fmt::format("prompt {}", i)));
    handles.push_back(std::move(*handle));
  }
  std::unique_lock lock(collector->mutex);
  collector->all_ended.wait(lock, [&] { return collector->ended == handles.size(); });
  return std::move(collector->results);
}

}  // namespace lockstep::cli
