// SPDX-License-Identifier: Apache-2.0
// For tests: stages a step from descriptions of its rows, in vectors of its own. (The engine has its own, fixed
// storage.)
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "step/step.h"

namespace lockstep::step::testing {

struct RowSpec {
  std::vector<int32_t> tokens;  ///< of this step
  int64_t start = 0;            ///< position of tokens[0]
  int32_t samples = 0;
  std::vector<int32_t> pages;
  int32_t source = -1;  ///< decode rows: token_source
  bool idle = false;
  std::vector<int32_t> targets;  ///< score targets, one a token; empty = -1 for all
  Pooling pooling = Pooling::kNone;
  int32_t pooling_slot = 0;
  int32_t logprobs_k = -1;
  float temperature = 0.0f;
  uint64_t seed = 0;
};

/// Owns the storage of a StepArgs. Move-only, for views point into it.
class StagedStep {
 public:
  /// The first `decode_rows` of `rows` go through token_ids. max_blocks columns in the block table.
  StagedStep(uint64_t step_id, int64_t decode_rows, const std::vector<RowSpec>& rows, int64_t block_size,
             int64_t max_blocks) {
    for (size_t r = 0; r < rows.size(); ++r)
      stage_row(rows[r], static_cast<int64_t>(r) < decode_rows, block_size, max_blocks);
    const auto count = static_cast<int64_t>(rows.size());
    const auto tokens = static_cast<int64_t>(slots.size());
    args.step_id = step_id;
    args.num_decode_rows = decode_rows;
    if (decode_rows > 0) args.token_ids = {token_ids.data(), {decode_rows, kTokenWidth}};
    if (decode_rows > 0) args.token_source = {sources.data(), {decode_rows}};
    if (!input_ids.empty()) args.input_ids = {input_ids.data(), {static_cast<int64_t>(input_ids.size())}};
    args.query_lens = {query_lens.data(), {count}};
    args.seq_lens = {seq_lens.data(), {count}};
    args.sample_counts = {sample_counts.data(), {count}};
    args.block_table = {table.data(), {count, max_blocks}};
    args.slot_mapping = {slots.data(), {tokens}};
    if (scored) args.score_targets = {targets.data(), {tokens}};
    if (pooled) args.pooling = {pooling.data(), {count}};
    if (pooled) args.pooling_slot = {pooling_slots.data(), {count}};
    args.sampling.temperature = {temperature.data(), {count}};
    args.sampling.seed = {seed.data(), {count}};
    args.sampling.logprobs_k = {logprobs_k.data(), {count}};
  }
  StagedStep(StagedStep&&) = default;
  StagedStep& operator=(StagedStep&&) = default;

  int64_t rows() const { return static_cast<int64_t>(query_lens.size()); }
  int64_t tokens() const { return static_cast<int64_t>(slots.size()); }
  int64_t sampled() const {
    int64_t sum = 0;
    for (int32_t n : sample_counts) sum += n;
    return sum;
  }

  StepArgs args;
  std::vector<int32_t> token_ids, input_ids, sources, query_lens, seq_lens, sample_counts, table, slots, targets,
      pooling, pooling_slots, logprobs_k;
  std::vector<float> temperature;
  std::vector<uint64_t> seed;
  bool scored = false, pooled = false;

 private:
  void stage_row(const RowSpec& row, bool decode, int64_t block_size, int64_t max_blocks) {
    const auto query = static_cast<int64_t>(row.tokens.size());
    if (decode) {
      for (int64_t c = 0; c < kTokenWidth; ++c)
        token_ids.push_back(c < query ? row.tokens[static_cast<size_t>(c)] : -7);
      sources.push_back(row.source);
    } else {
      input_ids.insert(input_ids.end(), row.tokens.begin(), row.tokens.end());
    }
    query_lens.push_back(static_cast<int32_t>(query));
    seq_lens.push_back(static_cast<int32_t>(row.start + query));
    sample_counts.push_back(row.samples);
    for (int64_t i = 0; i < max_blocks; ++i) {
      table.push_back(i < static_cast<int64_t>(row.pages.size()) ? row.pages[static_cast<size_t>(i)] : -1);
    }
    for (int64_t i = 0; i < query; ++i) {
      const int64_t position = row.start + i;
      const auto page = static_cast<size_t>(position / block_size);
      const int64_t slot =
          row.idle || page >= row.pages.size() ? -1 : row.pages[page] * block_size + position % block_size;
      slots.push_back(static_cast<int32_t>(slot));
      targets.push_back(row.targets.empty() ? -1 : row.targets[static_cast<size_t>(i)]);
    }
    scored = scored || !row.targets.empty();
    pooled = pooled || row.pooling != Pooling::kNone;
    pooling.push_back(static_cast<int32_t>(row.pooling));
    pooling_slots.push_back(row.pooling_slot);
    logprobs_k.push_back(row.logprobs_k);
    temperature.push_back(row.temperature);
    seed.push_back(row.seed);
  }
};

}  // namespace lockstep::step::testing
