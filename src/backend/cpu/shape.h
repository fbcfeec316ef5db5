// SPDX-License-Identifier: Apache-2.0
// What the CPU backend accepts, and the step that warms it up.
#pragma once

#include <vector>

#include "backend/backend.h"
#include "loader/spec.h"
#include "step/step.h"

namespace lockstep::backend::cpu_detail {

std::vector<int64_t> block_sizes();
/// The vocabulary rounded up to a multiple of 512: columns of the logits output.
int64_t padded_vocab(int64_t vocab_size);
/// Fills max_model_len of 0; refuses what is out of range, naming field, value and limit.
Expected<StepShape> checked_shape(const loader::ModelConfig& config, const StepShape& shape);
/// kv is left empty.
step::StepLimits step_limits(const loader::ModelConfig& config, const StepShape& shape);
/// The model's dimensions, a block size and dtype that the backend has, at least one block.
Status check_geometry(const loader::ModelConfig& config, const step::KvGeometry& geometry);

/// A step on pages of its own: max_num_seqs - 1 decode rows and one chunk; with full_warm_up all rows together bring
/// max_num_batched_tokens tokens. Owns arguments and outputs.
class WarmUpStep {
 public:
  WarmUpStep(const StepShape& shape, const step::StepLimits& limits);
  step::KvGeometry geometry(const loader::ModelConfig& config) const;
  step::StepArgs args() const;
  step::StepOutputs outputs() const;

 private:
  void add_row(int64_t tokens);

  StepShape shape_;
  int64_t num_blocks_ = 0;
  int64_t max_blocks_ = 0;
  std::vector<int32_t> input_ids_, query_lens_, sample_counts_, slots_, table_;
  mutable std::vector<int32_t> sampled_ids_, row_status_;
};

}  // namespace lockstep::backend::cpu_detail
