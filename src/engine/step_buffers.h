// SPDX-License-Identifier: Apache-2.0
// Storage of one step in flight, booked once for the largest step: host arrays of the arguments, device buffers of the
// outputs, host copies of the results. Each call of a step gets views of exactly the rows that it brings.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/status.h"
#include "sampling/sampling_batch.h"
#include "scheduler/plan.h"

namespace lockstep::engine {

/// The largest step.
struct StepCapacity {
  int64_t max_num_seqs = 0;
  int64_t max_num_batched_tokens = 0;
  int64_t max_step_width = 1;
  int64_t max_blocks_per_seq = 0;
  int64_t block_size = 16;
  int64_t vocab_size = 0;
};

/// Not thread-safe. After create(), staging allocates only when logit_bias, counts or masks are larger than ever
/// before.
class StepBuffers final {
 public:
  static Expected<std::unique_ptr<StepBuffers>> create(backend::Backend& backend, const StepCapacity& capacity,
                                                       std::span<const int32_t> eos_token_ids);

  /// Fills the arguments from `plan`, cut into calls of call_rows[i] rows, in row order.
  void stage(const scheduler::StepPlan& plan, std::span<const int64_t> call_rows, sampling::CountsBySlot& counts);
  int64_t num_calls() const { return static_cast<int64_t>(calls_.size()); }
  step::StepArgs args(int64_t call) const;
  step::StepOutputs outputs(int64_t call) const;

  /// Copies the outputs of all calls to the host. After wait() of all of them.
  Status read(const backend::Backend& backend);
  /// Results of row `row` of the plan, valid until the next stage().
  std::span<const int32_t> sampled_ids(int64_t row) const;
  bool finite(int64_t row) const;
  /// Of sample `sample` of the row; k = at most as many best ids.
  request::TokenLogprobs sample_logprobs(int64_t row, int64_t sample, int k) const;
  /// Of the target after token `token` of the row.
  request::TokenLogprobs score_logprobs(int64_t row, int64_t token, int k) const;

 private:
  struct Call {
    int64_t first_row = 0, rows = 0, decode_rows = 0;
    int64_t first_token = 0, tokens = 0;
    int64_t first_input = 0, inputs = 0;
    int64_t first_sample = 0, samples = 0;
    bool scores = false;
    int32_t score_k = 0;
  };
  struct Row {
    int64_t call = 0, first_token = 0, first_sample = 0, samples = 0;
  };
  using DevicePtr = std::unique_ptr<backend::DeviceBuffer>;

  StepBuffers(const StepCapacity& capacity, std::span<const int32_t> eos_token_ids);
  Status allocate_outputs(backend::Backend& backend);
  void stage_row(const scheduler::StepPlan& plan, int64_t row, sampling::CountsBySlot& counts);
  void stage_tokens(const scheduler::PlanRow& row, int64_t index, bool decode);
  void stage_block_table(const scheduler::PlanRow& row, int64_t index);
  void stage_targets(const scheduler::PlanRow& row, Call& call);

  StepCapacity capacity_;
  std::vector<Call> calls_;
  std::vector<Row> rows_;
  int64_t num_inputs_ = 0, num_tokens_ = 0, num_samples_ = 0;
  uint64_t step_id_ = 0;
  bool has_sources_ = false;

  // Arguments.
  std::vector<int32_t> token_ids_;                                             // [max_num_seqs, 8]
  std::vector<int32_t> input_ids_;                                             // [max tokens]
  std::vector<int32_t> token_source_, query_lens_, seq_lens_, sample_counts_;  // [max_num_seqs]
  std::vector<int32_t> block_table_;                                           // [max_num_seqs, max_blocks]
  std::vector<int64_t> table_used_;                                            // [max_num_seqs] entries that are not -1
  std::vector<int32_t> slot_mapping_, score_targets_;                          // [max tokens]
  sampling::SamplingBatch sampling_;

  // Outputs. [S, k] and [T, k] arrays lie in 1-D buffers of the largest k, each call from its first sample's or token's
  // place.
  DevicePtr sampled_ids_, row_status_, logprobs_, top_ids_, top_logprobs_;
  DevicePtr score_logprobs_, score_ranks_, score_top_ids_, score_top_logprobs_;
  std::vector<int32_t> host_sampled_ids_, host_row_status_, host_top_ids_, host_score_ranks_, host_score_top_ids_;
  std::vector<float> host_logprobs_, host_top_logprobs_, host_score_logprobs_, host_score_top_logprobs_;
};

}  // namespace lockstep::engine
