// SPDX-License-Identifier: Apache-2.0
// Runs jobs in order on a thread of its own, at most two in flight.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "backend/backend.h"
#include "backend/cpu/step_runner.h"
#include "base/status.h"

namespace lockstep::backend::cpu_detail {

/// submit(), wait() and drain() are for one thread. Allocates nothing after construction.
class Executor {
 public:
  static constexpr uint64_t kInFlight = 2;

  explicit Executor(std::function<void(const Job&)> body);
  /// Finishes what is in flight.
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Jobs submitted and not waited for.
  uint64_t in_flight() const { return submitted_ - waited_; }
  /// kFailedPrecondition if two are in flight.
  Expected<StepTicket> submit(const Job& job);
  /// Also ends the wait for all earlier tickets. kInvalidArgument for a ticket that was never given out.
  Status wait(StepTicket ticket);
  /// Returns when nothing runs; tickets stay to be waited for.
  void drain();

 private:
  void loop();
  void wait_until_done(uint64_t id);

  std::function<void(const Job&)> body_;
  std::array<Job, kInFlight> jobs_;  ///< job of ticket id at id % 2
  uint64_t submitted_ = 0;           ///< last ticket given out; written under the mutex, by the submitting thread
  uint64_t waited_ = 0;              ///< of the submitting thread
  uint64_t done_ = 0;                ///< under the mutex
  bool stop_ = false;                ///< under the mutex
  std::mutex mutex_;
  std::condition_variable work_, finished_;
  std::thread thread_;  ///< last: starts when all else is there
};

}  // namespace lockstep::backend::cpu_detail
