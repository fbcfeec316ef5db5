// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/executor.h"

#include <xmmintrin.h>

#include <utility>

namespace lockstep::backend::cpu_detail {

Executor::Executor(std::function<void(const Job&)> body) : body_(std::move(body)), thread_([this] { loop(); }) {}

Executor::~Executor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_one();
  thread_.join();
}

Expected<StepTicket> Executor::submit(const Job& job) {
  if (in_flight() >= kInFlight) {
    return error(StatusCode::kFailedPrecondition, "{} steps are in flight, wait for one before the next submit",
                 kInFlight);
  }
  StepTicket ticket;
  {
    const std::lock_guard lock(mutex_);
    ticket.id = ++submitted_;
    jobs_[ticket.id % kInFlight] = job;
  }
  work_.notify_one();
  return ticket;
}

Status Executor::wait(StepTicket ticket) {
  if (ticket.id == 0 || ticket.id > submitted_) {
    return invalid_argument("ticket {} was never given out, the last one is {}", ticket.id, submitted_);
  }
  wait_until_done(ticket.id);
  waited_ = std::max(waited_, ticket.id);
  return {};
}

void Executor::drain() { wait_until_done(submitted_); }

void Executor::wait_until_done(uint64_t id) {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return done_ >= id; });
}

void Executor::loop() {
  _mm_setcsr(0x1f80);  // round to nearest, no FTZ, no DAZ, whatever the creating thread had (docs/numerics.md)
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [&] { return stop_ || submitted_ > done_; });
    if (submitted_ == done_) return;
    const uint64_t id = done_ + 1;
    lock.unlock();
    body_(jobs_[id % kInFlight]);  // nobody writes there before done_ reaches id
    lock.lock();
    done_ = id;
    finished_.notify_all();
  }
}

}  // namespace lockstep::backend::cpu_detail
