// SPDX-License-Identifier: Apache-2.0
// A head whose logits are what the test says: W[id][r] is row r's logit of id, and row r of hidden is the r-th unit
// vector.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/head.h"
#include "ops/test_support.h"

namespace lockstep::ops::testing {

/// Sampling parameters of one row.
struct RowParams {
  float temperature = 0;
  int32_t top_k = 0;
  float top_p = 1, min_p = 0;
  uint64_t seed = 0;
  int32_t choice = 0;
  float repetition = 1, presence = 0, frequency = 0;
  std::vector<std::pair<int32_t, int32_t>> counts = {};  // id, times generated
  std::vector<std::pair<int32_t, float>> bias = {};
  int32_t mask = -1;
  int32_t logprobs_k = -1;
};

/// Owns what a SamplingView points at.
class Sampling {
 public:
  explicit Sampling(const std::vector<RowParams>& rows, std::vector<uint32_t> masks = {}, int64_t num_masks = 0)
      : masks_(std::move(masks)), num_masks_(num_masks) {
    for (const RowParams& row : rows) {
      temperature_.push_back(row.temperature);
      top_k_.push_back(row.top_k);
      top_p_.push_back(row.top_p);
      min_p_.push_back(row.min_p);
      seed_.push_back(row.seed);
      choice_.push_back(row.choice);
      repetition_.push_back(row.repetition);
      presence_.push_back(row.presence);
      frequency_.push_back(row.frequency);
      mask_index_.push_back(row.mask);
      logprobs_k_.push_back(row.logprobs_k);
      for (const auto& [id, outputs] : row.counts) {
        count_ids_.push_back(id);
        count_outputs_.push_back(outputs);
      }
      count_offsets_.push_back(static_cast<int32_t>(count_ids_.size()));
      for (const auto& [id, value] : row.bias) {
        bias_ids_.push_back(id);
        bias_values_.push_back(value);
      }
      bias_offsets_.push_back(static_cast<int32_t>(bias_ids_.size()));
    }
  }
  step::SamplingView view() const {
    step::SamplingView v;
    v.temperature = view1(temperature_);
    v.top_k = view1(top_k_);
    v.top_p = view1(top_p_);
    v.min_p = view1(min_p_);
    v.seed = view1(seed_);
    v.choice = view1(choice_);
    v.repetition_penalty = view1(repetition_);
    v.presence_penalty = view1(presence_);
    v.frequency_penalty = view1(frequency_);
    v.count_offsets = view1(count_offsets_);
    v.count_ids = view1(count_ids_);
    v.count_outputs = view1(count_outputs_);
    v.bias_offsets = view1(bias_offsets_);
    v.bias_ids = view1(bias_ids_);
    v.bias_values = view1(bias_values_);
    v.mask_index = view1(mask_index_);
    if (num_masks_ > 0) {
      v.masks = View<const uint32_t>(masks_.data(), {num_masks_, static_cast<int64_t>(masks_.size()) / num_masks_});
    }
    v.logprobs_k = view1(logprobs_k_);
    return v;
  }

 private:
  std::vector<float> temperature_, top_p_, min_p_, repetition_, presence_, frequency_, bias_values_;
  std::vector<int32_t> top_k_, choice_, mask_index_, logprobs_k_, count_ids_, count_outputs_, bias_ids_;
  std::vector<int32_t> count_offsets_ = {0}, bias_offsets_ = {0};
  std::vector<uint64_t> seed_;
  std::vector<uint32_t> masks_;
  int64_t num_masks_ = 0;
};

struct HeadResult {
  std::vector<int32_t> ids, finite, top_ids;
  std::vector<float> logprobs, top_logprobs;
};

/// A head over given logits [rows][vocab].
class TestHead {
 public:
  TestHead(const kernels::KernelTable* table, int threads, const std::vector<std::vector<float>>& logits,
           int64_t max_sampled = 300)
      : engine(table, threads),
        rows_(static_cast<int64_t>(logits.size())),
        vocab_(static_cast<int64_t>(logits[0].size())) {
    Source source;
    source.n = vocab_;
    source.k = rows_;
    source.row_bytes = rows_ * 4;
    source.bytes.resize(static_cast<size_t>(vocab_ * source.row_bytes));
    for (int64_t id = 0; id < vocab_; ++id) {
      for (int64_t r = 0; r < rows_; ++r) {
        std::memcpy(source.bytes.data() + id * source.row_bytes + r * 4,
                    &logits[static_cast<size_t>(r)][static_cast<size_t>(id)], 4);
      }
    }
    matrix = pack(engine.ctx, source, kernels::WeightFormat::kF32);
    quantized = std::move(*QuantizedRows::create(1, 1));
    scratch.emplace(std::move(*HeadScratch::create(threads, max_sampled, vocab_, rows_)));
  }

  /// Position s has the logits of row logit_rows[s].
  HeadResult run(const std::vector<int64_t>& logit_rows, const std::vector<SampledPosition>& positions,
                 const step::SamplingView& sampling, int64_t k = 0) {
    const auto count = static_cast<int64_t>(positions.size());
    std::vector<float> hidden(static_cast<size_t>(count * rows_));
    for (int64_t s = 0; s < count; ++s) hidden[static_cast<size_t>(s * rows_ + logit_rows[static_cast<size_t>(s)])] = 1;
    HeadResult result;
    result.ids.assign(positions.size(), -7);
    result.finite.assign(positions.size(), -7);
    result.logprobs.assign(positions.size(), -7);
    result.top_ids.assign(static_cast<size_t>(count * k), -7);
    result.top_logprobs.assign(static_cast<size_t>(count * k), -7);
    HeadOutputs out;
    out.ids = View<int32_t>(result.ids.data(), {count});
    out.finite = View<int32_t>(result.finite.data(), {count});
    out.logprobs = View<float>(result.logprobs.data(), {count});
    if (k > 0) {
      out.top_ids = View<int32_t>(result.top_ids.data(), {count, k});
      out.top_logprobs = View<float>(result.top_logprobs.data(), {count, k});
    }
    head_and_choose(engine.ctx, matrix, testing::view(std::as_const(hidden), count, rows_), quantized, positions,
                    sampling, *scratch, out);
    return result;
  }
  /// Row r of the logits with parameters r, at position 0 of each.
  HeadResult run_rows(const std::vector<RowParams>& params, int64_t k = 0) {
    std::vector<int64_t> logit_rows;
    std::vector<SampledPosition> positions;
    for (size_t r = 0; r < params.size(); ++r) {
      logit_rows.push_back(static_cast<int64_t>(r) % rows_);
      positions.push_back({static_cast<int32_t>(r), 0});
    }
    const Sampling sampling(params);
    return run(logit_rows, positions, sampling.view(), k);
  }

  Engine engine;
  Matrix matrix;
  QuantizedRows quantized;
  std::optional<HeadScratch> scratch;

 private:
  int64_t rows_, vocab_;
};

}  // namespace lockstep::ops::testing
