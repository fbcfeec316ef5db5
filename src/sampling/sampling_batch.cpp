// SPDX-License-Identifier: Apache-2.0
#include "sampling/sampling_batch.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace lockstep::sampling {
namespace {

constexpr double kGreedyBelow = 1e-5;

// Narrowing to f32 must not leave the open end of (0, ...].
float positive(double value) { return std::max(static_cast<float>(value), std::numeric_limits<float>::min()); }

template <class T>
View<const T> part(const std::vector<T>& values, int64_t first, int64_t count) {
  return View<const T>(values.data() + first, {count});
}

}  // namespace

void normalise(request::SamplingParams& params) {
  auto& bias = params.logit_bias;
  std::stable_sort(bias.begin(), bias.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t kept = 0;
  for (size_t i = 0; i < bias.size(); ++i) {
    if (i + 1 < bias.size() && bias[i + 1].first == bias[i].first) continue;
    bias[kept++] = bias[i];
  }
  bias.resize(kept);
}

bool has_penalties(const request::SamplingParams& params) {
  return params.repetition_penalty != 1.0 || params.presence_penalty != 0.0 || params.frequency_penalty != 0.0;
}

SamplingBatch::SamplingBatch(int64_t max_num_seqs, int64_t vocab_size, std::span<const int32_t> eos_token_ids)
    : vocab_size_(vocab_size),
      mask_words_((vocab_size + 31) / 32),
      eos_token_ids_(eos_token_ids.begin(), eos_token_ids.end()) {
  const auto rows = static_cast<size_t>(max_num_seqs);
  calls_.reserve(rows);
  for (auto* values : {&temperature_, &top_p_, &min_p_, &repetition_, &presence_, &frequency_}) values->reserve(rows);
  for (auto* values : {&top_k_, &choice_, &mask_index_, &logprobs_k_}) values->reserve(rows);
  seed_.reserve(rows);
  count_offsets_.reserve(2 * rows);
  bias_offsets_.reserve(2 * rows);
}

void SamplingBatch::clear() {
  calls_.clear();
  for (auto* values : {&temperature_, &top_p_, &min_p_, &repetition_, &presence_, &frequency_, &bias_values_})
    values->clear();
  for (auto* values : {&top_k_, &choice_, &mask_index_, &logprobs_k_, &count_offsets_, &count_ids_, &count_outputs_,
                       &bias_offsets_, &bias_ids_}) {
    values->clear();
  }
  seed_.clear();
  num_masks_ = 0;
}

void SamplingBatch::begin_call() {
  Call& call = calls_.emplace_back();
  call.first_row = static_cast<int64_t>(temperature_.size());
  call.first_count = static_cast<int64_t>(count_ids_.size());
  call.first_bias = static_cast<int64_t>(bias_ids_.size());
  count_offsets_.push_back(0);
  bias_offsets_.push_back(0);
}

void SamplingBatch::add_neutral(Call& call) {
  ++call.num_rows;
  temperature_.push_back(0.0F);
  top_k_.push_back(0);
  top_p_.push_back(1.0F);
  min_p_.push_back(0.0F);
  seed_.push_back(0);
  choice_.push_back(0);
  repetition_.push_back(1.0F);
  presence_.push_back(0.0F);
  frequency_.push_back(0.0F);
  mask_index_.push_back(-1);
  logprobs_k_.push_back(-1);
}

void SamplingBatch::add(const SamplingRow& row, CountsBySlot& counts) {
  Call& call = calls_.back();
  add_neutral(call);
  if (row.num_samples > 0) {
    const request::SamplingParams& params = *row.params;
    seed_.back() = row.seed;
    choice_.back() = params.choice;
    if (params.temperature >= kGreedyBelow) {
      call.draws = true;
      temperature_.back() = static_cast<float>(params.temperature);
      top_k_.back() = params.top_k <= 0 ? 0 : static_cast<int32_t>(std::min(params.top_k, vocab_size_));
      top_p_.back() = positive(params.top_p);
      min_p_.back() = static_cast<float>(params.min_p);
    }
    if (params.logprobs) logprobs_k_.back() = static_cast<int32_t>(std::min<int64_t>(*params.logprobs, vocab_size_));
    call.logprobs_k = std::max(call.logprobs_k, logprobs_k_.back());
    if (has_penalties(params)) add_penalties(call, row, counts);
    if (!params.logit_bias.empty()) add_bias(call, row);
    if (row.num_generated < params.min_tokens) add_mask(call, row);
  }
  call.num_counts = static_cast<int64_t>(count_ids_.size()) - call.first_count;
  call.num_bias = static_cast<int64_t>(bias_ids_.size()) - call.first_bias;
  count_offsets_.push_back(static_cast<int32_t>(call.num_counts));
  bias_offsets_.push_back(static_cast<int32_t>(call.num_bias));
}

void SamplingBatch::add_penalties(Call& call, const SamplingRow& row, CountsBySlot& counts) {
  call.penalises = true;
  repetition_.back() = positive(row.params->repetition_penalty);
  presence_.back() = static_cast<float>(row.params->presence_penalty);
  frequency_.back() = static_cast<float>(row.params->frequency_penalty);
  TokenCounts& own = counts[static_cast<size_t>(row.slot)];
  own.update(row.request_id, row.tokens, row.num_prompt, row.params->max_tokens);
  for (const TokenCounts::Entry& entry : own.entries()) {
    count_ids_.push_back(entry.id);
    count_outputs_.push_back(entry.outputs);
  }
}

void SamplingBatch::add_bias(Call& call, const SamplingRow& row) {
  call.biases = true;
  for (const auto& [id, value] : row.params->logit_bias) {
    bias_ids_.push_back(id);
    bias_values_.push_back(value);
  }
}

void SamplingBatch::add_mask(Call& call, const SamplingRow& row) {
  const bool eos = !row.params->ignore_eos && !eos_token_ids_.empty();
  if (!eos && row.params->stop_token_ids.empty()) return;
  call.masks = true;
  mask_index_.back() = static_cast<int32_t>(num_masks_);
  const auto words = static_cast<size_t>(mask_words_);
  const size_t first = static_cast<size_t>(num_masks_++) * words;
  if (masks_.size() < first + words) masks_.resize(first + words);
  std::fill_n(masks_.begin() + static_cast<int64_t>(first), words, ~uint32_t{0});
  const auto forbid = [&](int32_t id) {
    masks_[first + static_cast<size_t>(id) / 32] &= ~(uint32_t{1} << (static_cast<uint32_t>(id) % 32));
  };
  if (eos) std::for_each(eos_token_ids_.begin(), eos_token_ids_.end(), forbid);
  std::for_each(row.params->stop_token_ids.begin(), row.params->stop_token_ids.end(), forbid);
}

step::SamplingView SamplingBatch::view(int64_t index) const {
  const Call& call = calls_[static_cast<size_t>(index)];
  const int64_t first = call.first_row;
  const int64_t rows = call.num_rows;
  const int64_t first_offset = first + index;
  step::SamplingView view;
  if (call.draws) {
    view.temperature = part(temperature_, first, rows);
    view.top_k = part(top_k_, first, rows);
    view.top_p = part(top_p_, first, rows);
    view.min_p = part(min_p_, first, rows);
    view.seed = part(seed_, first, rows);
    view.choice = part(choice_, first, rows);
  }
  if (call.penalises) {
    view.repetition_penalty = part(repetition_, first, rows);
    view.presence_penalty = part(presence_, first, rows);
    view.frequency_penalty = part(frequency_, first, rows);
    view.count_offsets = part(count_offsets_, first_offset, rows + 1);
    view.count_ids = part(count_ids_, call.first_count, call.num_counts);
    view.count_outputs = part(count_outputs_, call.first_count, call.num_counts);
  }
  if (call.biases) {
    view.bias_offsets = part(bias_offsets_, first_offset, rows + 1);
    view.bias_ids = part(bias_ids_, call.first_bias, call.num_bias);
    view.bias_values = part(bias_values_, call.first_bias, call.num_bias);
  }
  if (call.masks) {
    view.mask_index = part(mask_index_, first, rows);
    view.masks = View<const uint32_t>(masks_.data(), {num_masks_, mask_words_});
  }
  if (call.logprobs_k >= 0) view.logprobs_k = part(logprobs_k_, first, rows);
  return view;
}

}  // namespace lockstep::sampling
