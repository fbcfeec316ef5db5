// SPDX-License-Identifier: Apache-2.0
#include "engine/runner.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::engine {

using scheduler::StepPlan;

Expected<std::unique_ptr<Runner>> Runner::create(backend::Backend& backend, const StepCapacity& capacity,
                                                 std::span<const int32_t> eos_token_ids) {
  LOCKSTEP_ASSIGN_OR_RETURN(CallSplit split,
                            CallSplit::create(backend.capabilities().batch_sizes, capacity.max_num_seqs));
  std::unique_ptr<Runner> runner(new Runner(backend, std::move(split), capacity.max_num_seqs));
  for (Flight& flight : runner->flights_) {
    LOCKSTEP_ASSIGN_OR_RETURN(flight.buffers, StepBuffers::create(backend, capacity, eos_token_ids));
    flight.result.rows.reserve(static_cast<size_t>(capacity.max_num_seqs));
  }
  return runner;
}

Runner::Runner(backend::Backend& backend, CallSplit split, int64_t max_num_seqs)
    : backend_(backend), split_(std::move(split)), counts_(static_cast<size_t>(max_num_seqs)) {
  call_rows_.reserve(static_cast<size_t>(max_num_seqs));
}

bool Runner::submit(const StepPlan& plan) {
  LOCKSTEP_CHECK(num_in_flight_ < 2 && !plan.empty());
  Flight& flight = flights_[static_cast<size_t>((oldest_ + num_in_flight_) % 2)];
  flight.plan = &plan;
  flight.result.status = Status();
  flight.result.rows.clear();
  split_.split(static_cast<int64_t>(plan.rows.size()), call_rows_);
  flight.buffers->stage(plan, call_rows_, counts_);
  flight.start = Clock::now();
  if (const Status status = start_calls(flight); !status.ok()) {
    find_offenders(flight, status);
    return false;
  }
  ++num_in_flight_;
  return true;
}

// A step of several calls is checked as a whole first: none of it may run if a part is refused.
Status Runner::start_calls(Flight& flight) {
  const int64_t calls = flight.buffers->num_calls();
  for (int64_t call = 0; calls > 1 && call < calls; ++call) {
    LOCKSTEP_RETURN_IF_ERROR(backend_.validate(flight.buffers->args(call), flight.buffers->outputs(call)));
  }
  flight.calls_left = calls;
  for (int64_t call = 0; call < calls; ++call) {
    while (num_tickets_ == 2) wait_call();
    const auto ticket = backend_.submit(flight.buffers->args(call), flight.buffers->outputs(call));
    if (ticket) {
      tickets_[static_cast<size_t>(num_tickets_++)] = {.ticket = *ticket, .flight = &flight};
    } else if (call == 0) {
      return ticket.error();
    } else {  // what has been started can't be taken back: the step fails
      flight.result.status = ticket.error();
      flight.calls_left -= calls - call;
      break;
    }
  }
  return {};
}

void Runner::wait_call() {
  const Ticket oldest = tickets_[0];
  tickets_[0] = tickets_[1];
  --num_tickets_;
  if (Status status = backend_.wait(oldest.ticket); !status.ok()) oldest.flight->result.status = std::move(status);
  --oldest.flight->calls_left;
}

FinishedStep Runner::wait() {
  LOCKSTEP_CHECK(num_in_flight_ > 0);
  Flight& flight = flights_[static_cast<size_t>(oldest_)];
  while (flight.calls_left > 0) wait_call();
  const Clock::time_point finish = Clock::now();
  flight.result.wall_s = std::chrono::duration<double>(finish - std::max(flight.start, last_finish_)).count();
  last_finish_ = finish;
  oldest_ = (oldest_ + 1) % 2;
  --num_in_flight_;
  collect(flight);
  return {.plan = flight.plan, .buffers = flight.buffers.get(), .result = &flight.result};
}

void Runner::collect(Flight& flight) {
  if (!flight.result.status.ok()) return;
  flight.result.status = flight.buffers->read(backend_);
  for (int64_t row = 0; row < static_cast<int64_t>(flight.plan->rows.size()); ++row) {
    flight.result.rows.push_back({.finite = flight.buffers->finite(row), .ids = flight.buffers->sampled_ids(row)});
  }
}

// Each row as a call of its own tells which ones are to blame.
void Runner::find_offenders(Flight& flight, const Status& status) {
  refused_.clear();
  const StepPlan& plan = *flight.plan;
  const auto rows = static_cast<int32_t>(plan.rows.size());
  if (status.code() == StatusCode::kInvalidArgument) {
    call_rows_.assign(plan.rows.size(), 1);
    flight.buffers->stage(plan, call_rows_, counts_);
    for (int32_t row = 0; row < rows; ++row) {
      Status own = backend_.validate(flight.buffers->args(row), flight.buffers->outputs(row));
      if (!own.ok()) refused_.push_back({.row = row, .error = std::move(own)});
    }
  }
  if (!refused_.empty()) return;
  for (int32_t row = 0; row < rows; ++row) refused_.push_back({.row = row, .error = status});
}

}  // namespace lockstep::engine
