// SPDX-License-Identifier: Apache-2.0
#include "engine/core.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace lockstep::engine {

using request::FinishReason;
using scheduler::Outcome;
using scheduler::StepPlan;

scheduler::SchedulerOptions scheduler_options(const EngineOptions& options) {
  scheduler::SchedulerOptions result;
  result.max_num_seqs = options.max_num_seqs;
  result.max_num_batched_tokens = options.max_num_batched_tokens;
  result.long_prefill_token_threshold = options.long_prefill_token_threshold;
  result.max_model_len = options.max_model_len;
  result.block_size = options.block_size;
  result.num_blocks = options.num_kv_blocks;
  result.enable_chunked_prefill = options.enable_chunked_prefill;
  result.enable_prefix_caching = options.enable_prefix_caching;
  result.adaptive_budget = options.adaptive_budget;
  result.policy =
      options.policy == SchedulingPolicy::kPriority ? scheduler::Policy::kPriority : scheduler::Policy::kFcfs;
  result.eos_token_ids = options.eos_token_ids;
  return result;
}

Expected<std::unique_ptr<Core>> Core::create(backend::Backend& backend, const EngineOptions& options,
                                             std::function<double()> clock) {
  StepCapacity capacity;
  capacity.max_num_seqs = options.max_num_seqs;
  capacity.max_num_batched_tokens = options.max_num_batched_tokens;
  capacity.max_step_width = options.max_step_width;
  capacity.max_blocks_per_seq = (options.max_model_len + options.block_size - 1) / options.block_size;
  capacity.block_size = options.block_size;
  capacity.vocab_size = backend.capabilities().vocab_size;
  LOCKSTEP_ASSIGN_OR_RETURN(auto runner, Runner::create(backend, capacity, options.eos_token_ids));
  return std::unique_ptr<Core>(new Core(options, std::move(runner), std::move(clock)));
}

Core::Core(const EngineOptions& options, std::unique_ptr<Runner> runner, std::function<double()> clock)
    : async_(options.async_scheduling),
      on_step_(options.on_step),
      scheduler_(scheduler_options(options)),
      runner_(std::move(runner)),
      clock_(std::move(clock)) {}

void Core::add(uint64_t id, request::Request request, uint64_t seed, EventCallback on_event) {
  Record record;
  record.on_event = std::move(on_event);
  record.seed = seed;
  record.num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
  record.logprobs = request.sampling.logprobs;
  record.prompt_logprobs = request.sampling.prompt_logprobs;
  if (record.prompt_logprobs) record.scored.resize(static_cast<size_t>(record.num_prompt));
  prompt_tokens_ += record.num_prompt;
  records_.emplace(id, std::move(record));
  scheduler_.add(id, std::move(request), seed, clock_());
}

void Core::finish(uint64_t id, FinishReason reason) {
  scheduler_.finish(id, reason);
  deliver(/*buffers=*/nullptr);
}

void Core::step() {
  const double begin = clock_();
  const uint64_t steps_before = num_steps_;
  last_.wait_s = 0;
  if (runner_->num_in_flight() > 0 && (!async_ || scheduler_.wants_results())) finish_oldest();
  const StepPlan& plan = scheduler_.schedule(begin);
  deliver(/*buffers=*/nullptr);  // requests that met their deadline
  const bool started = !plan.empty() && start(plan);
  if (runner_->num_in_flight() > (started && async_ ? 1 : 0)) finish_oldest();
  if (num_steps_ == steps_before) return;
  last_.step_wall_s = clock_() - begin;
  total_step_wall_s_ += last_.step_wall_s;
  if (on_step_) on_step_(last_);
}

bool Core::start(const StepPlan& plan) {
  if (runner_->submit(plan)) return true;
  scheduler_.abandon(plan, runner_->refused());
  deliver(/*buffers=*/nullptr);
  return false;
}

void Core::finish_oldest() {
  const double wait_begin = clock_();
  const FinishedStep step = runner_->wait();
  last_.wait_s += clock_() - wait_begin;
  ++num_steps_;
  last_.step_id = step.plan->step_id;
  last_.rows = static_cast<int64_t>(step.plan->rows.size());
  last_.decode_rows = step.plan->num_decode_rows;
  last_.tokens = step.plan->num_tokens;
  step_tokens_.add(step.plan->num_tokens);
  last_.backend_wall_s = step.result->wall_s;
  total_backend_wall_s_ += step.result->wall_s;
  if (!step.result->status.ok()) log_error("step {} failed: {}", step.plan->step_id, step.result->status.to_string());
  gather_scores(step);
  scheduler_.update(*step.plan, *step.result);
  deliver(step.buffers);
}

void Core::gather_scores(const FinishedStep& step) {
  if (!step.result->status.ok()) return;
  for (size_t i = 0; i < step.plan->rows.size(); ++i) {
    const scheduler::PlanRow& row = step.plan->rows[i];
    if (!row.score_prompt) continue;
    const auto found = records_.find(row.request_id);
    if (found == records_.end() || found->second.answered) continue;
    Record& record = found->second;
    for (int64_t j = 0; j < row.num_tokens; ++j) {
      const int64_t target = row.first_position + j + 1;
      if (target >= record.num_prompt) break;
      record.scored[static_cast<size_t>(target)] =
          step.buffers->score_logprobs(static_cast<int64_t>(i), j, *record.prompt_logprobs);
    }
  }
}

void Core::deliver(const StepBuffers* buffers) {
  for (Outcome& outcome : scheduler_.outcomes()) {
    if (outcome.num_new_tokens == 0 && outcome.finish_reason == FinishReason::kNone) continue;
    const auto found = records_.find(outcome.request_id);
    LOCKSTEP_CHECK(found != records_.end());
    generation_tokens_ += outcome.num_new_tokens;
    found->second.on_event(make_event(outcome, found->second, outcome.row >= 0 ? buffers : nullptr));
    if (outcome.finish_reason != FinishReason::kNone) records_.erase(found);
  }
  scheduler_.clear_outcomes();
}

request::Event Core::make_event(const Outcome& outcome, Record& record, const StepBuffers* buffers) {
  request::Event event;
  event.request_id = outcome.request_id;
  event.new_token_ids.assign(outcome.new_tokens.begin(), outcome.new_tokens.begin() + outcome.num_new_tokens);
  for (int64_t j = 0; record.logprobs && buffers != nullptr && j < outcome.num_new_tokens; ++j) {
    event.logprobs.push_back(buffers->sample_logprobs(outcome.row, j, *record.logprobs));
  }
  if (outcome.prompt_done && !record.answered) event.prompt_logprobs = std::move(record.scored);
  record.answered = true;
  event.finish_reason = outcome.finish_reason;
  event.error = outcome.error;
  event.num_cached_tokens = outcome.num_cached_tokens;
  event.seed = record.seed;
  event.queue_s = outcome.queue_s;
  return event;
}

void Core::shut_down() {
  while (runner_->num_in_flight() > 0) finish_oldest();
  std::vector<uint64_t> ids;
  for (const auto& [id, record] : records_) ids.push_back(id);
  for (uint64_t id : ids) finish(id, FinishReason::kCancelled);
}

void StepTokens::add(int64_t tokens) {
  ++counts[static_cast<size_t>(std::lower_bound(kBounds.begin(), kBounds.end(), tokens) - kBounds.begin())];
  sum += tokens;
}

EngineStats Core::stats() const {
  const scheduler::SchedulerStats now = scheduler_.stats();
  EngineStats stats;
  stats.num_running = now.num_running;
  stats.num_waiting = now.num_waiting;
  stats.num_waiting_tokens = now.num_waiting_tokens;
  stats.num_blocks = now.kv.total;
  stats.num_free_blocks = now.kv.free + now.kv.cached;
  stats.num_cached_blocks = now.kv.cached;
  stats.num_steps = num_steps_;
  stats.last_step_wall_s = last_.step_wall_s;
  stats.last_backend_wall_s = last_.backend_wall_s;
  stats.total_step_wall_s = total_step_wall_s_;
  stats.total_backend_wall_s = total_backend_wall_s_;
  stats.prompt_tokens = prompt_tokens_;
  stats.generation_tokens = generation_tokens_;
  stats.step_tokens = step_tokens_;
  stats.num_preemptions = now.num_preemptions;
  stats.prefix_cache_queries = now.prefix_queries;
  stats.prefix_cache_hits = now.prefix_hits;
  return stats;
}

}  // namespace lockstep::engine
