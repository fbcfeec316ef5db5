// SPDX-License-Identifier: Apache-2.0
// update(), and the ends of requests.
#include <algorithm>

#include "base/check.h"
#include "scheduler/scheduler.h"

namespace lockstep::scheduler {

using request::FinishReason;

Sequence* Scheduler::find(uint64_t id) {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : it->second.get();
}

void Scheduler::update(const StepPlan& plan, const StepResult& result) {
  LOCKSTEP_CHECK(plan.step_id > completed_step_ && plan.step_id < next_step_);
  LOCKSTEP_CHECK(!result.status.ok() || result.rows.size() == plan.rows.size());
  completed_step_ = plan.step_id;
  int64_t decode_tokens = 0;
  for (int64_t i = 0; i < plan.num_decode_rows; ++i) decode_tokens += plan.rows[static_cast<size_t>(i)].num_tokens;
  if (result.status.ok()) pacer_.observe(plan.num_decode_rows, plan.num_tokens - decode_tokens, result.wall_s);
  for (size_t i = 0; i < plan.rows.size(); ++i) accept_row(plan.rows[i], static_cast<int32_t>(i), result);
  release_deferred();
}

void Scheduler::accept_row(const PlanRow& row, int32_t index, const StepResult& result) {
  Sequence* sequence = find(row.request_id);
  if (sequence == nullptr || sequence->epoch != row.epoch) return;  // ended or preempted meanwhile
  sequence->num_in_flight -= row.num_samples;
  if (!result.status.ok()) return end(*sequence, index, FinishReason::kError, result.status);
  const RowResult& row_result = result.rows[static_cast<size_t>(index)];
  if (!row_result.finite) {
    return end(*sequence, index, FinishReason::kError,
               error(StatusCode::kInternal, "the model's output is not finite at position {}",
                     row.first_position + row.num_tokens - 1));
  }
  const int64_t confirmed = row.first_position + row.num_tokens;
  if (confirmed >= sequence->num_prompt) sequence->prompt_done = true;
  publish(*sequence, confirmed);

  Outcome& outcome = add_outcome(*sequence, index);
  FinishReason reason = FinishReason::kNone;
  for (int32_t token : row_result.ids) {
    outcome.new_tokens[static_cast<size_t>(outcome.num_new_tokens++)] = token;
    reason = append_token(*sequence, token);
    if (reason != FinishReason::kNone) break;
  }
  if (sequence->sampling.max_tokens == 0 && sequence->prompt_done) reason = FinishReason::kLength;
  if (reason != FinishReason::kNone) {
    outcome.finish_reason = reason;
    leave_running(*sequence);
    sequences_.erase(sequence->id);
  }
}

FinishReason Scheduler::append_token(Sequence& sequence, int32_t token) {
  sequence.tokens.push_back(token);
  const auto in = [token](const std::vector<int32_t>& ids) {
    return std::find(ids.begin(), ids.end(), token) != ids.end();
  };
  if (!sequence.sampling.ignore_eos && in(options_.eos_token_ids)) return FinishReason::kStop;
  if (in(sequence.sampling.stop_token_ids)) return FinishReason::kStop;
  const int64_t generated = static_cast<int64_t>(sequence.tokens.size()) - sequence.num_prompt;
  return generated >= sequence.sampling.max_tokens ? FinishReason::kLength : FinishReason::kNone;
}

// Only blocks whose every position a finished step has written: the last sampled token is not among them.
void Scheduler::publish(Sequence& sequence, int64_t confirmed) {
  if (!cache_.prefix_caching()) return;
  const auto size = static_cast<size_t>(options_.block_size);
  while ((sequence.published.num_blocks + 1) * options_.block_size <= confirmed) {
    const auto block = static_cast<size_t>(sequence.published.num_blocks);
    renounce(sequence, sequence.published.num_blocks + 1);
    cache_.publish(std::span(sequence.tokens).subspan(block * size, size), sequence.salt, sequence.blocks[block],
                   sequence.published);
  }
}

Outcome& Scheduler::add_outcome(const Sequence& sequence, int32_t row) {
  Outcome& outcome = outcomes_.emplace_back();
  outcome.request_id = sequence.id;
  outcome.row = row;
  outcome.prompt_done = sequence.prompt_done;
  outcome.queue_s = sequence.queue_s;
  outcome.num_cached_tokens = std::max<int64_t>(0, sequence.num_cached);
  return outcome;
}

void Scheduler::end(Sequence& sequence, int32_t row, FinishReason reason, Status error) {
  Outcome& outcome = add_outcome(sequence, row);
  outcome.finish_reason = reason;
  outcome.error = std::move(error);
  if (sequence.running) {
    leave_running(sequence);
  } else {
    waiting_.erase(&sequence);
  }
  sequences_.erase(sequence.id);
}

void Scheduler::finish(uint64_t id, FinishReason reason, Status error) {
  if (Sequence* sequence = find(id)) end(*sequence, /*row=*/-1, reason, std::move(error));
}

void Scheduler::preempt(Sequence& sequence) {
  ++num_preemptions_;
  leave_running(sequence);
  ++sequence.epoch;
  sequence.num_computed = 0;
  sequence.num_in_flight = 0;
  waiting_.insert(&sequence);
}

void Scheduler::leave_running(Sequence& sequence) {
  renounce(sequence, sequence.num_pending);
  sequence.num_pending = 0;
  release_blocks(sequence);
  free_slots_.push_back(sequence.slot);
  sequence.slot = -1;
  sequence.running = false;
  running_.erase(std::find(running_.begin(), running_.end(), &sequence));
}

// A submitted step may still read or write the blocks: they go home when it has finished.
void Scheduler::release_blocks(Sequence& sequence) {
  if (sequence.last_step <= completed_step_) {
    cache_.release(sequence.blocks);
    sequence.blocks.clear();
    return;
  }
  num_deferred_ += static_cast<int64_t>(sequence.blocks.size());
  deferred_.push_back({.step_id = sequence.last_step, .blocks = std::move(sequence.blocks)});
  sequence.blocks.clear();
}

void Scheduler::release_deferred() {
  std::erase_if(deferred_, [this](const DeferredRelease& release) {
    if (release.step_id > completed_step_) return false;
    cache_.release(release.blocks);
    num_deferred_ -= static_cast<int64_t>(release.blocks.size());
    return true;
  });
}

void Scheduler::abandon(const StepPlan& plan, std::span<const RowError> offenders) {
  LOCKSTEP_CHECK(plan.step_id + 1 == next_step_);
  next_step_ = plan.step_id;
  for (const PlanRow& row : plan.rows) {
    Sequence* sequence = find(row.request_id);
    if (sequence == nullptr || sequence->epoch != row.epoch) continue;
    sequence->num_computed = row.first_position;
    sequence->num_in_flight -= row.num_samples;
    sequence->last_step = plan.step_id - 1;
    if (row.token_source >= 0) sequence->last_row = row.token_source;
  }
  for (const RowError& offender : offenders) {
    const PlanRow& row = plan.rows[static_cast<size_t>(offender.row)];
    if (Sequence* sequence = find(row.request_id)) end(*sequence, /*row=*/-1, FinishReason::kError, offender.error);
  }
  release_deferred();
}

}  // namespace lockstep::scheduler
