// SPDX-License-Identifier: Apache-2.0
// Which tokens of which requests the next step computes. Pure logic: no threads, no clock of its own, no tensors.
//
// A request has num_tokens and num_computed; a step gives some requests some tokens out of one budget. Chunked prefill,
// prefix hits and preemption by recompute are all that. Up to two steps may be submitted at once: schedule() may be
// called before update() of the step before, whose sampled ids it then names by row (PlanRow::token_source).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "kv/kv_cache.h"
#include "request/request.h"
#include "scheduler/plan.h"
#include "scheduler/prefill_pacer.h"
#include "scheduler/sequence.h"
#include "scheduler/waiting_queue.h"

namespace lockstep::scheduler {

enum class Policy { kFcfs, kPriority };

struct SchedulerOptions {
  int64_t max_num_seqs = 16;                    ///< rows of a step
  int64_t max_num_batched_tokens = 4096;        ///< tokens of a step; at least max_num_seqs
  int64_t long_prefill_token_threshold = 2048;  ///< tokens of one prompt in one step at most
  int64_t max_model_len = 0;
  int64_t block_size = 16;
  int64_t num_blocks = 0;
  bool enable_chunked_prefill = true;  ///< off: a prompt is computed in one step, so the budget must hold max_model_len
  bool enable_prefix_caching = false;
  bool adaptive_budget = true;  ///< chunks beside decode rows are kept small enough for an even pace
  Policy policy = Policy::kFcfs;
  std::vector<int32_t> eos_token_ids;
};

struct SchedulerStats {
  int64_t num_running = 0;
  int64_t num_waiting = 0;
  int64_t num_waiting_tokens = 0;
  kv::KvUsage kv;
  int64_t num_preemptions = 0;
  int64_t prefix_queries = 0;  ///< prompt tokens looked up in the prefix cache at admission
  int64_t prefix_hits = 0;     ///< of these, found
};

/// Not thread-safe. A steady decode step allocates nothing.
class Scheduler final {
 public:
  /// Options must have been checked: num_blocks >= 1, a known block size, max_num_seqs >= 1.
  explicit Scheduler(SchedulerOptions options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Can this ever run? kInvalidArgument names the limit. Thread-safe.
  static Status check_fits(const request::Request& request, const SchedulerOptions& options);

  /// Queues a request that check_fits() accepts and whose id is new. `now` in seconds of any steady clock.
  void add(uint64_t id, request::Request request, uint64_t seed, double now);
  /// Ends a request, if it is there, with `reason`. Its rows leave with the next step.
  void finish(uint64_t id, request::FinishReason reason, Status error = {});

  /// The next step. Requests past their deadline at `now` end first. Empty: nothing can run before the next update(),
  /// or at all. The plan holds until the call after the next.
  const StepPlan& schedule(double now);
  /// A request in the step before could go on if its result was known: call update() before schedule().
  bool wants_results() const;
  /// The last scheduled step was refused before dispatch: the requests of `offenders` end with their errors, the others
  /// are as if it had not been scheduled.
  void abandon(const StepPlan& plan, std::span<const RowError> offenders);
  /// Steps are updated in the order of their schedule().
  void update(const StepPlan& plan, const StepResult& result);

  /// What has happened since clear_outcomes().
  std::vector<Outcome>& outcomes() { return outcomes_; }
  void clear_outcomes() { outcomes_.clear(); }

  bool has_requests() const { return !sequences_.empty(); }
  SchedulerStats stats() const;
  void flush_prefix_cache() { cache_.flush(); }
  /// The pool is sound, every held block is a request's or waits for a step's end. kInternal if not. O(blocks).
  Status check() const;

 private:
  struct DeferredRelease {
    uint64_t step_id = 0;
    std::vector<kv::BlockId> blocks;
  };
  enum class Room { kYes, kNotNow, kPreempted };

  // schedule
  void expire(double now);
  void plan_decodes(StepPlan& plan);
  void plan_chunks(StepPlan& plan);
  void admit_waiting(StepPlan& plan);
  Room make_room(Sequence& sequence, int64_t num_tokens);
  void append_row(StepPlan& plan, Sequence& sequence, int64_t num_tokens);
  void limit_chunks(const StepPlan& plan);
  bool is_chunk(const Sequence& sequence) const;
  int64_t chunk_size(const Sequence& sequence, int64_t budget) const;
  void grow_chunks(StepPlan& plan);
  void grow_row(StepPlan& plan, Sequence& sequence, int64_t budget);
  int64_t budget_left(const StepPlan& plan) const { return token_limit_ - plan.num_tokens; }
  bool wants_token(const Sequence& sequence) const;

  // admission
  enum class Admission { kAdmitted, kSkip, kStop };
  Admission try_admit(Sequence& sequence);
  int64_t find_prefix(Sequence& sequence, kv::PrefixCursor& cursor);
  void start(Sequence& sequence);
  void announce(Sequence& sequence, int64_t end);
  void renounce(Sequence& sequence, int64_t end);

  // update
  void accept_row(const PlanRow& row, int32_t index, const StepResult& result);
  void publish(Sequence& sequence, int64_t confirmed);
  request::FinishReason append_token(Sequence& sequence, int32_t token);
  Outcome& add_outcome(const Sequence& sequence, int32_t row);
  void end(Sequence& sequence, int32_t row, request::FinishReason reason, Status error);
  void preempt(Sequence& sequence);
  void leave_running(Sequence& sequence);
  void release_blocks(Sequence& sequence);
  void release_deferred();
  Sequence* find(uint64_t id);

  SchedulerOptions options_;
  kv::KvCache cache_;
  std::unordered_map<uint64_t, std::unique_ptr<Sequence>> sequences_;
  std::vector<Sequence*> running_;  // best claim first
  WaitingQueue waiting_;
  std::vector<int32_t> free_slots_;
  std::array<StepPlan, 3> plans_;  // the one in flight, the one being prepared, and one that the caller may still read
  size_t next_plan_ = 0;
  uint64_t next_step_ = 1;
  uint64_t completed_step_ = 0;
  uint64_t next_arrival_ = 0;
  std::vector<DeferredRelease> deferred_;
  int64_t num_deferred_ = 0;                       // blocks in deferred_
  std::unordered_map<uint64_t, int32_t> pending_;  // chained hashes of blocks that running requests are computing
  std::vector<kv::BlockId> match_;                 // scratch of find_prefix
  std::vector<Sequence*> growing_;                 // scratch of grow_chunks
  using Deadline = std::pair<double, uint64_t>;
  std::priority_queue<Deadline, std::vector<Deadline>, std::greater<>> deadlines_;
  double now_ = 0;  // of the last schedule()
  PrefillPacer pacer_;
  int64_t chunk_tokens_ = 0;  // for chunks of the step being planned, in all
  int64_t token_limit_ = 0;   // for the step being planned
  std::vector<Outcome> outcomes_;
  int64_t num_preemptions_ = 0;
  int64_t prefix_queries_ = 0;
  int64_t prefix_hits_ = 0;
};

}  // namespace lockstep::scheduler
