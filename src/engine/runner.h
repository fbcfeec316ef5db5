// SPDX-License-Identifier: Apache-2.0
// Runs plans on a backend: stages them into capacity buffers, makes prefix views, starts the calls, brings results
// home.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "base/status.h"
#include "engine/call_split.h"
#include "engine/step_buffers.h"
#include "scheduler/plan.h"

namespace lockstep::engine {

/// A finished step.
struct FinishedStep {
  const scheduler::StepPlan* plan = nullptr;
  const StepBuffers* buffers = nullptr;  ///< logprobs; valid until the call of submit() after the next
  const scheduler::StepResult* result = nullptr;
};

/// At most two steps in flight. Not thread-safe. Two steps' buffers are booked in create(); a steady step allocates
/// nothing.
class Runner final {
 public:
  /// The backend must outlive the runner and be warmed up.
  static Expected<std::unique_ptr<Runner>> create(backend::Backend& backend, const StepCapacity& capacity,
                                                  std::span<const int32_t> eos_token_ids);

  /// Stages and starts a step; the plan must live until its wait(). False: the backend refused it before anything was
  /// started, refused() says which rows are to blame (all, if no single one is), the runner is as before.
  bool submit(const scheduler::StepPlan& plan);
  const std::vector<scheduler::RowError>& refused() const { return refused_; }

  /// Waits for the oldest step in flight.
  FinishedStep wait();
  int num_in_flight() const { return num_in_flight_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Flight {
    const scheduler::StepPlan* plan = nullptr;
    std::unique_ptr<StepBuffers> buffers;
    scheduler::StepResult result;
    Clock::time_point start;
    int64_t calls_left = 0;
  };
  struct Ticket {
    backend::StepTicket ticket;
    Flight* flight = nullptr;
  };

  Runner(backend::Backend& backend, CallSplit split, int64_t max_num_seqs);
  Status start_calls(Flight& flight);
  void wait_call();
  void find_offenders(Flight& flight, const Status& status);
  void collect(Flight& flight);

  backend::Backend& backend_;
  CallSplit split_;
  std::vector<int64_t> call_rows_;
  sampling::CountsBySlot counts_;
  std::array<Flight, 2> flights_;
  int oldest_ = 0;
  int num_in_flight_ = 0;
  std::array<Ticket, 2> tickets_;  // of calls in flight, oldest first
  int num_tickets_ = 0;
  std::vector<scheduler::RowError> refused_;
  Clock::time_point last_finish_;
};

}  // namespace lockstep::engine
