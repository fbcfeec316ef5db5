// SPDX-License-Identifier: Apache-2.0
// Construction and schedule(). Admission is in admission.cpp, update() in scheduler_update.cpp.
#include "scheduler/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::scheduler {
namespace {

constexpr int64_t kChunkMultiple = 16;  // whole vector tiles for a chunk that does not end its prompt

}  // namespace

Scheduler::Scheduler(SchedulerOptions options)
    : options_(std::move(options)), cache_(options_.num_blocks, options_.block_size, options_.enable_prefix_caching) {
  LOCKSTEP_CHECK(options_.max_num_seqs >= 1 && options_.max_num_batched_tokens >= options_.max_num_seqs);
  const auto rows = static_cast<size_t>(options_.max_num_seqs);
  running_.reserve(rows + 1);
  growing_.reserve(rows);
  outcomes_.reserve(2 * rows);
  for (StepPlan& plan : plans_) plan.rows.reserve(rows);
  for (int32_t slot = static_cast<int32_t>(rows) - 1; slot >= 0; --slot) free_slots_.push_back(slot);
}

Scheduler::~Scheduler() = default;

Status Scheduler::check_fits(const request::Request& request, const SchedulerOptions& options) {
  const auto prompt = static_cast<int64_t>(request.prompt_token_ids.size());
  const int64_t max_tokens = request.sampling.max_tokens;
  if (prompt < 1) return invalid_argument("the prompt is empty");
  if (prompt > options.max_model_len || max_tokens > options.max_model_len - prompt) {
    return invalid_argument("prompt of {} tokens + max_tokens {} is more than the context of {} tokens", prompt,
                            max_tokens, options.max_model_len);
  }
  if (request.num_precomputed_tokens < 0 || request.num_precomputed_tokens >= prompt) {
    return invalid_argument("num_precomputed_tokens is {}, must be in [0, {})", request.num_precomputed_tokens, prompt);
  }
  if (request.num_precomputed_tokens > 0 && options.enable_prefix_caching) {
    return invalid_argument("num_precomputed_tokens is {}, must be 0 with prefix caching",
                            request.num_precomputed_tokens);
  }
  // The last generated token is never an input, so its K/V needs no slot.
  const int64_t slots = prompt + std::max<int64_t>(0, max_tokens - 1);
  const int64_t pool = options.num_blocks * options.block_size;
  if (slots > pool) {
    return invalid_argument("prompt of {} tokens + max_tokens {} can never fit the KV pool of {} tokens", prompt,
                            max_tokens, pool);
  }
  return {};
}

void Scheduler::add(uint64_t id, request::Request request, uint64_t seed, double now) {
  auto sequence = std::make_unique<Sequence>();
  sequence->id = id;
  sequence->arrival = next_arrival_++;
  sequence->priority = options_.policy == Policy::kPriority ? request.priority : 0;
  sequence->seed = seed;
  sequence->num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
  sequence->num_precomputed = request.num_precomputed_tokens;
  sequence->tokens = std::move(request.prompt_token_ids);
  sequence->sampling = std::move(request.sampling);
  if (!request.cache_salt.empty()) sequence->salt = std::make_shared<const std::string>(std::move(request.cache_salt));
  sequence->arrived_at = now;
  if (request.timeout_s) {
    sequence->deadline = now + *request.timeout_s;
    deadlines_.emplace(sequence->deadline, id);
  }
  waiting_.insert(sequence.get());
  const bool added = sequences_.emplace(id, std::move(sequence)).second;
  LOCKSTEP_CHECK(added);
}

void Scheduler::expire(double now) {
  while (!deadlines_.empty() && deadlines_.top().first <= now) {
    const uint64_t id = deadlines_.top().second;
    deadlines_.pop();
    finish(id, request::FinishReason::kDeadline);
  }
}

const StepPlan& Scheduler::schedule(double now) {
  expire(now);
  now_ = now;
  StepPlan& plan = plans_[next_plan_];
  plan.rows.clear();
  plan.num_decode_rows = 0;
  plan.num_tokens = 0;
  plan.step_id = next_step_;
  plan_decodes(plan);
  plan.num_decode_rows = static_cast<int64_t>(plan.rows.size());
  limit_chunks(plan);
  plan_chunks(plan);
  admit_waiting(plan);
  grow_chunks(plan);
  if (!plan.empty()) {
    ++next_step_;
    next_plan_ = (next_plan_ + 1) % plans_.size();
  }
  return plan;
}

bool Scheduler::wants_token(const Sequence& sequence) const {
  return sequence.num_generated() < sequence.sampling.max_tokens;
}

void Scheduler::plan_decodes(StepPlan& plan) {
  // By index: make_room() may take requests off the end of the list, never before the current one.
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.num_uncomputed() != 1 || !wants_token(sequence)) continue;
    if (sequence.num_in_flight > 0 && sequence.needs_known_tokens()) continue;
    const Room room = make_room(sequence, sequence.num_computed + 1);
    if (room == Room::kPreempted) return;
    if (room == Room::kYes) append_row(plan, sequence, 1);
  }
}

void Scheduler::limit_chunks(const StepPlan& plan) {
  chunk_tokens_ = options_.max_num_batched_tokens - plan.num_tokens;
  if (options_.adaptive_budget && options_.enable_chunked_prefill) {
    const bool wanted =
        !waiting_.empty() ||
        std::any_of(running_.begin(), running_.end(), [this](const Sequence* sequence) { return is_chunk(*sequence); });
    if (wanted) chunk_tokens_ = std::min(chunk_tokens_, pacer_.limit(plan.num_decode_rows));
  }
  token_limit_ = plan.num_tokens + chunk_tokens_;
}

// The last token asked for is never an input, and one token that is wanted was plan_decodes' to place.
bool Scheduler::is_chunk(const Sequence& sequence) const {
  if (sequence.last_step == next_step_) return false;
  return wants_token(sequence) ? sequence.num_uncomputed() > 1 : sequence.num_computed < sequence.num_prompt;
}

// Prompts share a step in three rounds: half of it goes to those that run, first come first served, so each gets done;
// then new ones start; what is left goes to those with the least left to do, so a short prompt does not wait for a long
// one.
void Scheduler::plan_chunks(StepPlan& plan) {
  const bool whole = !options_.enable_chunked_prefill;
  const int64_t reserve = whole ? 0 : chunk_tokens_ / 2;
  for (Sequence* sequence : running_) {
    if (!is_chunk(*sequence)) continue;
    const int64_t tokens = chunk_size(*sequence, budget_left(plan) - reserve);
    if (tokens > 0) append_row(plan, *sequence, tokens);
  }
}

// A chunk that doesn't end its prompt has whole tiles, if it can.
int64_t Scheduler::chunk_size(const Sequence& sequence, int64_t budget) const {
  const int64_t left = sequence.num_uncomputed();
  if (!options_.enable_chunked_prefill) return left <= budget ? left : 0;
  const int64_t tokens = std::min({left, options_.long_prefill_token_threshold, budget});
  if (tokens < left && tokens >= kChunkMultiple) return tokens / kChunkMultiple * kChunkMultiple;
  return std::max<int64_t>(0, tokens);
}

void Scheduler::grow_chunks(StepPlan& plan) {
  if (!options_.enable_chunked_prefill || budget_left(plan) <= 0) return;
  growing_.clear();
  for (Sequence* sequence : running_) {
    const bool planned = sequence->last_step == plan.step_id;
    if (planned ? sequence->num_computed < static_cast<int64_t>(sequence->tokens.size()) : is_chunk(*sequence)) {
      growing_.push_back(sequence);
    }
  }
  std::sort(growing_.begin(), growing_.end(), [](const Sequence* a, const Sequence* b) {
    return a->num_uncomputed() != b->num_uncomputed() ? a->num_uncomputed() < b->num_uncomputed() : a->before(*b);
  });
  for (Sequence* sequence : growing_) {
    if (sequence->last_step == plan.step_id) {
      grow_row(plan, *sequence, budget_left(plan));
    } else if (const int64_t tokens = chunk_size(*sequence, budget_left(plan)); tokens > 0) {
      append_row(plan, *sequence, tokens);
    }
  }
}

void Scheduler::grow_row(StepPlan& plan, Sequence& sequence, int64_t budget) {
  PlanRow& row = plan.rows[static_cast<size_t>(sequence.last_row)];
  const int64_t before = row.num_tokens;
  sequence.num_computed = row.first_position;
  plan.num_tokens -= before;
  row.num_tokens = std::max(before, chunk_size(sequence, before + budget));
  row.num_samples = row.num_tokens == sequence.num_uncomputed() && wants_token(sequence) ? 1 : 0;
  sequence.num_computed += row.num_tokens;
  sequence.num_in_flight += row.num_samples;
  plan.num_tokens += row.num_tokens;
}

Scheduler::Room Scheduler::make_room(Sequence& sequence, int64_t num_tokens) {
  const int64_t needed = (num_tokens + options_.block_size - 1) / options_.block_size;
  while (static_cast<int64_t>(sequence.blocks.size()) < needed) {
    if (cache_.num_available() > 0) {
      sequence.blocks.push_back(cache_.allocate());
    } else if (num_deferred_ > 0) {
      return Room::kNotNow;  // blocks are on their way home; taking more from others would be too much
    } else {
      Sequence& victim = *running_.back();
      preempt(victim);
      if (&victim == &sequence) return Room::kPreempted;
    }
  }
  return Room::kYes;
}

void Scheduler::append_row(StepPlan& plan, Sequence& sequence, int64_t num_tokens) {
  PlanRow& row = plan.rows.emplace_back();
  row.request_id = sequence.id;
  row.epoch = sequence.epoch;
  row.slot = sequence.slot;
  row.first_position = sequence.num_computed;
  row.num_tokens = num_tokens;
  row.num_samples = num_tokens == sequence.num_uncomputed() && wants_token(sequence) ? 1 : 0;
  if (sequence.num_computed >= static_cast<int64_t>(sequence.tokens.size())) {
    LOCKSTEP_CHECK(num_tokens == 1 && sequence.num_in_flight == 1 && sequence.last_step + 1 == plan.step_id);
    row.token_source = sequence.last_row;
  }
  row.score_prompt = sequence.scores_prompt();
  row.seed = sequence.seed;
  row.num_prompt_tokens = sequence.num_prompt;
  row.tokens = sequence.tokens;
  row.blocks = sequence.blocks;
  row.sampling = &sequence.sampling;
  sequence.num_computed += num_tokens;
  sequence.num_in_flight += row.num_samples;
  sequence.last_step = plan.step_id;
  sequence.last_row = static_cast<int32_t>(plan.rows.size()) - 1;
  plan.num_tokens += num_tokens;
}

bool Scheduler::wants_results() const {
  return std::any_of(running_.begin(), running_.end(), [](const Sequence* sequence) {
    return sequence->num_in_flight > 0 && sequence->needs_known_tokens();
  });
}

SchedulerStats Scheduler::stats() const {
  return {.num_running = static_cast<int64_t>(running_.size()),
          .num_waiting = waiting_.size(),
          .num_waiting_tokens = waiting_.num_tokens(),
          .kv = cache_.usage(),
          .num_preemptions = num_preemptions_,
          .prefix_queries = prefix_queries_,
          .prefix_hits = prefix_hits_};
}

Status Scheduler::check() const {
  LOCKSTEP_RETURN_IF_ERROR(cache_.check());
  std::vector<int32_t> held(static_cast<size_t>(options_.num_blocks), 0);
  for (const Sequence* sequence : running_) {
    for (kv::BlockId block : sequence->blocks) ++held[static_cast<size_t>(block)];
  }
  for (const DeferredRelease& release : deferred_) {
    for (kv::BlockId block : release.blocks) ++held[static_cast<size_t>(block)];
  }
  for (kv::BlockId block = 0; block < static_cast<kv::BlockId>(options_.num_blocks); ++block) {
    if (held[static_cast<size_t>(block)] != cache_.references(block)) {
      return error(StatusCode::kInternal, "scheduler: block {} has {} references, {} holders", block,
                   cache_.references(block), held[static_cast<size_t>(block)]);
    }
  }
  const auto slots = static_cast<int64_t>(free_slots_.size() + running_.size());
  const auto requests = static_cast<int64_t>(running_.size()) + waiting_.size();
  if (slots != options_.max_num_seqs || requests != static_cast<int64_t>(sequences_.size())) {
    return error(StatusCode::kInternal, "scheduler: {} slots of {}, {} requests of {}", slots, options_.max_num_seqs,
                 requests, sequences_.size());
  }
  if (running_.empty() && !pending_.empty()) {
    return error(StatusCode::kInternal, "scheduler: {} blocks announced by nobody", pending_.size());
  }
  return {};
}

}  // namespace lockstep::scheduler
