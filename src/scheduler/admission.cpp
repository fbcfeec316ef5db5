// SPDX-License-Identifier: Apache-2.0
// From waiting to running: who may start, and with which blocks.
#include <algorithm>

#include "base/check.h"
#include "scheduler/scheduler.h"

namespace lockstep::scheduler {

void Scheduler::admit_waiting(StepPlan& plan) {
  int64_t skipped = 0;  // looking at a long queue of requests that wait for one prefix would take longer than the step
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Sequence& sequence = **it++;
    if (free_slots_.empty() || budget_left(plan) <= 0) return;
    const Admission admission = try_admit(sequence);
    if (admission == Admission::kStop) return;
    if (admission == Admission::kSkip) {
      if (++skipped >= options_.max_num_seqs) return;
      continue;
    }
    const bool more = it != waiting_.end() && !free_slots_.empty() && options_.enable_chunked_prefill;
    const int64_t tokens = chunk_size(sequence, more ? (budget_left(plan) + 1) / 2 : budget_left(plan));
    if (tokens > 0) append_row(plan, sequence, tokens);
  }
}

// Blocks for all known tokens are taken at once, so a started prompt never waits for memory half-way. A block for each
// running request is left over: without it the next decode step would take these blocks back.
Scheduler::Admission Scheduler::try_admit(Sequence& sequence) {
  kv::PrefixCursor cursor = kv::PrefixIndex::root(sequence.salt);
  const int64_t hits = find_prefix(sequence, cursor);
  if (hits < 0) return Admission::kSkip;
  const auto tokens = static_cast<int64_t>(sequence.tokens.size());
  const int64_t needed = (tokens + options_.block_size - 1) / options_.block_size;
  const auto idle_hits =
      std::count_if(match_.begin(), match_.end(), [this](kv::BlockId block) { return cache_.references(block) == 0; });
  const int64_t left = cache_.num_available() - idle_hits - (needed - hits);
  if (left < static_cast<int64_t>(running_.size())) return Admission::kStop;

  for (kv::BlockId block : match_) cache_.retain(block);
  sequence.blocks.reserve(
      static_cast<size_t>((sequence.num_prompt + sequence.sampling.max_tokens) / options_.block_size + 1));
  sequence.blocks.assign(match_.begin(), match_.end());
  while (static_cast<int64_t>(sequence.blocks.size()) < needed) sequence.blocks.push_back(cache_.allocate());
  sequence.published = cursor;
  sequence.num_pending = hits;
  const bool first = sequence.num_cached < 0;
  sequence.num_computed = std::max(hits * options_.block_size, first ? sequence.num_precomputed : 0);
  start(sequence);
  return Admission::kAdmitted;
}

// Blocks of the longest cached prefix, in match_; -1: a running request is computing this one's next block, so waiting
// for it is cheaper than computing it twice. At least one token is left to compute: its logits are needed.
int64_t Scheduler::find_prefix(Sequence& sequence, kv::PrefixCursor& cursor) {
  match_.clear();
  if (!cache_.prefix_caching() || sequence.scores_prompt()) return 0;
  const auto most = (sequence.tokens.size() - 1) / static_cast<size_t>(options_.block_size);
  const auto block_size = static_cast<size_t>(options_.block_size);
  while (sequence.hashes.size() < most) {
    const size_t block = sequence.hashes.size();
    const uint64_t parent = block == 0 ? cursor.hash : sequence.hashes.back();
    sequence.hashes.push_back(
        kv::PrefixIndex::chain(parent, std::span(sequence.tokens).subspan(block * block_size, block_size)));
  }
  cache_.match(sequence.tokens, sequence.hashes, sequence.salt, static_cast<int64_t>(most), match_, cursor);
  if (match_.size() < most && pending_.contains(sequence.hashes[match_.size()])) return -1;
  return static_cast<int64_t>(match_.size());
}

void Scheduler::start(Sequence& sequence) {
  waiting_.erase(&sequence);
  sequence.running = true;
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  sequence.tokens.reserve(static_cast<size_t>(sequence.num_prompt + sequence.sampling.max_tokens));
  if (sequence.num_cached < 0) {
    sequence.num_cached = sequence.num_pending * options_.block_size;
    sequence.queue_s = now_ - sequence.arrived_at;
    if (cache_.prefix_caching()) prefix_queries_ += sequence.num_prompt;
    prefix_hits_ += sequence.num_cached;
  }
  announce(sequence, static_cast<int64_t>(sequence.hashes.size()));
  const auto at = std::upper_bound(running_.begin(), running_.end(), &sequence,
                                   [](const Sequence* a, const Sequence* b) { return a->before(*b); });
  running_.insert(at, &sequence);
}

void Scheduler::announce(Sequence& sequence, int64_t end) {
  for (; sequence.num_pending < end; ++sequence.num_pending) {
    ++pending_[sequence.hashes[static_cast<size_t>(sequence.num_pending)]];
  }
}

void Scheduler::renounce(Sequence& sequence, int64_t end) {
  for (int64_t block = sequence.published.num_blocks; block < std::min(end, sequence.num_pending); ++block) {
    const auto it = pending_.find(sequence.hashes[static_cast<size_t>(block)]);
    LOCKSTEP_CHECK(it != pending_.end());
    if (--it->second == 0) pending_.erase(it);
  }
}

}  // namespace lockstep::scheduler
