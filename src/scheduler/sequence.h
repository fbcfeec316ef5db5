// SPDX-License-Identifier: Apache-2.0
// A request inside the scheduler.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "kv/kv_cache.h"
#include "request/request.h"

namespace lockstep::scheduler {

/// There is no prefill and no decode phase: each step computes some of the tokens that are not computed yet.
struct Sequence {
  uint64_t id = 0;
  uint64_t arrival = 0;  ///< serial number; kept over preemption
  int32_t priority = 0;  ///< 0 for all under Policy::kFcfs
  request::SamplingParams sampling;
  uint64_t seed = 0;
  kv::Salt salt;
  double deadline = std::numeric_limits<double>::infinity();
  double arrived_at = 0;
  double queue_s = 0;  ///< until the first admission

  std::vector<int32_t> tokens;  ///< prompt and known generated tokens
  int64_t num_prompt = 0;
  int64_t num_precomputed = 0;  ///< request::Request::num_precomputed_tokens
  int64_t num_computed = 0;     ///< tokens whose K/V is written, or will be by a submitted step
  int64_t num_in_flight = 0;    ///< tokens that submitted steps will sample
  int32_t last_row = -1;        ///< row of the last submitted step
  uint64_t last_step = 0;       ///< last step that names the blocks

  std::vector<kv::BlockId> blocks;
  std::vector<uint64_t> hashes;  ///< chained hashes of the full blocks of `tokens`, as far as they were needed
  kv::PrefixCursor published;    ///< blocks that the prefix cache knows
  int64_t num_pending = 0;       ///< blocks [published.num_blocks, num_pending) are announced as being computed

  bool running = false;
  uint32_t epoch = 0;
  int32_t slot = -1;
  int64_t num_cached = -1;  ///< prompt tokens from the prefix cache at the first admission
  bool prompt_done = false;

  int64_t num_tokens() const { return static_cast<int64_t>(tokens.size()) + num_in_flight; }
  int64_t num_generated() const { return num_tokens() - num_prompt; }
  int64_t num_uncomputed() const { return num_tokens() - num_computed; }
  bool scores_prompt() const { return sampling.prompt_logprobs.has_value() && !prompt_done; }
  /// The next step's inputs are not decided by token ids alone: penalties count tokens on the host.
  bool needs_known_tokens() const {
    return sampling.repetition_penalty != 1.0 || sampling.presence_penalty != 0.0 || sampling.frequency_penalty != 0.0;
  }
  /// Better claims first: priority, then arrival.
  bool before(const Sequence& other) const {
    return priority != other.priority ? priority < other.priority : arrival < other.arrival;
  }
};

}  // namespace lockstep::scheduler
