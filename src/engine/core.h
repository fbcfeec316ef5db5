// SPDX-License-Identifier: Apache-2.0
// The engine without its thread and queues: schedule -> run -> update, and events.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "base/status.h"
#include "engine/engine.h"
#include "engine/runner.h"
#include "scheduler/scheduler.h"

namespace lockstep::engine {

scheduler::SchedulerOptions scheduler_options(const EngineOptions& options);

/// Not thread-safe. Events are delivered from within step(), finish() and add(), in order.
class Core final {
 public:
  /// options resolved, num_kv_blocks those of the allocated pool. `clock` in seconds, steady.
  static Expected<std::unique_ptr<Core>> create(backend::Backend& backend, const EngineOptions& options,
                                                std::function<double()> clock);

  /// The request has passed check_fits() and its sampling is normalised.
  void add(uint64_t id, request::Request request, uint64_t seed, EventCallback on_event);
  /// Ends a request that is still there.
  void finish(uint64_t id, request::FinishReason reason);
  /// One step: nothing happens if there is nothing to do.
  void step();
  /// Requests are there, or a step is in flight.
  bool busy() const { return scheduler_.has_requests() || runner_->num_in_flight() > 0; }
  /// Waits for the steps in flight and ends all requests.
  void shut_down();
  void flush_prefix_cache() { scheduler_.flush_prefix_cache(); }

  EngineStats stats() const;
  Status check() const { return scheduler_.check(); }

 private:
  struct Record {
    EventCallback on_event;
    uint64_t seed = 0;
    int64_t num_prompt = 0;
    std::optional<int> logprobs;
    std::optional<int> prompt_logprobs;
    std::vector<request::TokenLogprobs> scored;  // of the prompt; moved into the first event
    bool answered = false;                       // an event has been delivered
  };

  Core(const EngineOptions& options, std::unique_ptr<Runner> runner, std::function<double()> clock);
  bool start(const scheduler::StepPlan& plan);
  void finish_oldest();
  void gather_scores(const FinishedStep& step);
  void deliver(const StepBuffers* buffers);
  request::Event make_event(const scheduler::Outcome& outcome, Record& record, const StepBuffers* buffers);

  bool async_;
  std::function<void(const StepReport&)> on_step_;
  scheduler::Scheduler scheduler_;
  std::unique_ptr<Runner> runner_;
  std::function<double()> clock_;
  std::unordered_map<uint64_t, Record> records_;
  StepReport last_;  // of the step finished last
  uint64_t num_steps_ = 0;
  double total_step_wall_s_ = 0, total_backend_wall_s_ = 0;
  int64_t prompt_tokens_ = 0, generation_tokens_ = 0;
  StepTokens step_tokens_;
};

}  // namespace lockstep::engine
