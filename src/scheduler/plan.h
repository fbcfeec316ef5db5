// SPDX-License-Identifier: Apache-2.0
// What the scheduler and the engine tell each other: a step's plan, its result, and what came of it. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/block_pool.h"
#include "request/request.h"

namespace lockstep::scheduler {

/// Ids that one row can get in one step at most.
inline constexpr int64_t kMaxRowTokens = 8;

/// Some tokens of one request in one step. The spans point into the scheduler and hold until its next call.
struct PlanRow {
  uint64_t request_id = 0;
  uint32_t epoch = 0;          ///< changes when the request is preempted: an older row's result is dropped
  int32_t slot = 0;            ///< 0..max_num_seqs-1, the request's own while it runs
  int64_t first_position = 0;  ///< of this step's tokens
  int64_t num_tokens = 0;
  int64_t num_samples = 0;  ///< 0 = the prompt goes on after this chunk
  int32_t token_source =
      -1;  ///< row of the step before whose sampled id is this row's only token; -1 = all tokens known
  bool score_prompt = false;  ///< logprobs of the prompt tokens after this row's tokens are asked for
  uint64_t seed = 0;
  int64_t num_prompt_tokens = 0;
  std::span<const int32_t> tokens;      ///< all known tokens of the request, from position 0
  std::span<const kv::BlockId> blocks;  ///< pages of positions 0..first_position + num_tokens - 1, or more
  const request::SamplingParams* sampling = nullptr;
};

/// Decode rows (one known or unknown token, one sample) come first, then chunks.
struct StepPlan {
  uint64_t step_id = 0;
  int64_t num_decode_rows = 0;
  int64_t num_tokens = 0;
  std::vector<PlanRow> rows;
  bool empty() const { return rows.empty(); }
};

struct RowResult {
  bool finite = true;            ///< false: NaN or infinity; the request ends with an error
  std::span<const int32_t> ids;  ///< sampled, num_samples of them
};

struct StepResult {
  Status status;                ///< not ok: the step failed as a whole, `rows` means nothing
  std::vector<RowResult> rows;  ///< one for each row of the plan
  double wall_s = 0;            ///< seconds that the backend took
};

/// A row that the backend would not take.
struct RowError {
  int32_t row = 0;
  Status error;
};

/// What happened to one request. Exactly one outcome of a request has a finish reason, its last.
struct Outcome {
  uint64_t request_id = 0;
  int32_t row = -1;  ///< of the plan that it came from; -1 = from none
  int32_t num_new_tokens = 0;
  std::array<int32_t, kMaxRowTokens> new_tokens = {};
  bool prompt_done = false;  ///< the prompt's last token has been computed (from then on)
  request::FinishReason finish_reason = request::FinishReason::kNone;
  Status error;                   ///< with kError
  int64_t num_cached_tokens = 0;  ///< prompt tokens that the prefix cache gave
  double queue_s = 0;             ///< from add() to the first schedule() that took it
};

}  // namespace lockstep::scheduler
