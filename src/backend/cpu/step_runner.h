// SPDX-License-Identifier: Apache-2.0
// Executes validated steps: stages tokens and positions, runs the model, then head, scores and pooling. Everything is
// booked at creation; run() allocates nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/contiguous_store.h"
#include "backend/cpu/kv_pool.h"
#include "backend/cpu/step_history.h"
#include "model/model.h"
#include "ops/head.h"

namespace lockstep::backend::cpu_detail {

/// A validated step.
struct Job {
  step::StepArgs args;
  step::StepOutputs outputs;
  int64_t history_entry = 0;  ///< of row 0 in the history
};

/// Used by one thread at a time.
class StepRunner {
 public:
  /// kResourceExhausted names the buffer. Needs no weights: `int8_activations` and the config say all.
  static Expected<StepRunner> create(const loader::ModelConfig& config, bool int8_activations, const StepShape& shape,
                                     int threads);
  int64_t bytes() const;
  /// Writes every page of what bytes() counts, so that no later step meets a page fault there.
  void touch();
  /// With `contiguous`, K and V are written there too and attended from there.
  void run(const ops::Context& ctx, const model::Model& model, const KvPool& pool, ContiguousStore* contiguous,
           StepHistory& history, const Job& job);

 private:
  void stage(const Job& job, const StepHistory& history);
  model::Batch batch(const Job& job, const KvPool& pool, ContiguousStore* contiguous) const;
  void choose(const ops::Context& ctx, const model::Model& model, StepHistory& history, const Job& job,
              View<const float> x);
  int64_t gather_sampled(const Job& job, View<const float> x);
  void deliver_ids(StepHistory& history, const Job& job);
  void score(const ops::Context& ctx, const model::Model& model, const Job& job, View<const float> x);
  void score_tile(const ops::Context& ctx, const model::Model& model, const Job& job, View<const float> x,
                  int64_t count);
  void pool_rows(const ops::Context& ctx, const model::Model& model, const Job& job, View<const float> x);
  void pool_mean(const ops::Context& ctx, const model::Model& model, const Job& job, int64_t row, View<const float> x);
  void deliver_status(const Job& job) const;
  bool idle(const Job& job, int64_t row) const {
    return job.args.slot_mapping(token_offsets_[static_cast<size_t>(row)]) == -1;
  }

  model::Workspace workspace_;
  ops::HeadScratch head_;
  Buffer final_storage_, pooled_storage_;
  View<float> final_;                                      ///< [rows that pass the final norm together, hidden]
  View<float> accumulated_;                                ///< [max_num_seqs, hidden]  mean pooling
  std::vector<int32_t> token_ids_, positions_, token_ok_;  ///< [max_tokens]
  std::vector<int32_t> token_offsets_;                     ///< [max_rows + 1]
  std::vector<ops::SampledPosition> sampled_;              ///< [max_sampled]
  std::vector<int32_t> ids_, finite_;                      ///< [max_sampled]
  std::vector<int32_t> tile_tokens_, tile_targets_, tile_ranks_, tile_top_ids_;
  std::vector<float> tile_logprobs_, tile_top_logprobs_;

  explicit StepRunner(ops::HeadScratch head) : head_(std::move(head)) {}
};

}  // namespace lockstep::backend::cpu_detail
