// SPDX-License-Identifier: Apache-2.0
// Checks a step before dispatch. Every refusal is kInvalidArgument, names the argument, the value and the limit, and
// nothing has been written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "step/step.h"

namespace lockstep::step {

/// What a backend was made for; the limits of a step.
struct StepLimits {
  int64_t max_num_seqs = 0;            ///< rows
  int64_t max_num_batched_tokens = 0;  ///< T
  int64_t max_sampled = 0;             ///< S: max_num_seqs x step width
  int64_t max_model_len = 0;           ///< seq_lens
  int64_t vocab_size = 0;
  int64_t padded_vocab = 0;  ///< columns of the logits output
  int64_t hidden_size = 0;
  std::vector<int64_t> batch_sizes;  ///< rows that the backend accepts; empty = any
  KvGeometry kv;                     ///< num_blocks and block_size of the pool
};

/// Working storage of validate_step, booked once so that a step allocates nothing.
class ValidationScratch {
 public:
  explicit ValidationScratch(const StepLimits& limits);
  std::vector<uint64_t> slots;  ///< capacity for the duplicate-slot check
};

/// Limits: see the header of each field in step.h. Cost O(T log T). Thread-safe for different scratches.
Status validate_step(const StepArgs& args, const StepOutputs& outputs, const StepLimits& limits,
                     ValidationScratch& scratch);

}  // namespace lockstep::step
