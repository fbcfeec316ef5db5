// SPDX-License-Identifier: Apache-2.0
// What changes a row's logits before the choice: token mask, logit_bias, penalties, in this order.
#include <algorithm>

#include "ops/head_scratch.h"

namespace lockstep::ops {
namespace {

constexpr float kGreedyTemperature = 1e-5f;  ///< below it a row is greedy (api.md, decision 3)
/// The smallest weight is 2^-40 = exp(-27.7): buckets span that distance.
constexpr float kWeightRange = 28.0f;

template <class T>
T value_or(View<const T> view, int64_t row, T otherwise) {
  return view.empty() ? otherwise : view(row);
}

/// Entries first..end-1 of a CSR row whose ids lie in [first_id, end_id).
struct Range {
  int64_t first, end;
};
Range entries_in(View<const int32_t> offsets, View<const int32_t> ids, int64_t row, int64_t first_id, int64_t end_id) {
  const int32_t* begin = ids.data() + offsets(row);
  const int32_t* end = ids.data() + offsets(row + 1);
  return {std::lower_bound(begin, end, first_id) - ids.data(), std::lower_bound(begin, end, end_id) - ids.data()};
}

struct Penalties {
  float repetition, presence, frequency;
  bool none() const { return repetition == 1.0f && presence == 0.0f && frequency == 0.0f; }
};
Penalties penalties_of(const step::SamplingView& sampling, int64_t row) {
  return {value_or(sampling.repetition_penalty, row, 1.0f), value_or(sampling.presence_penalty, row, 0.0f),
          value_or(sampling.frequency_penalty, row, 0.0f)};
}

bool has_entries(View<const int32_t> offsets, int64_t row) {
  return !offsets.empty() && offsets(row + 1) > offsets(row);
}
bool has_mask(const step::SamplingView& sampling, int64_t row) { return value_or(sampling.mask_index, row, -1) >= 0; }
bool has_penalties(const step::SamplingView& sampling, int64_t row) {
  return has_entries(sampling.count_offsets, row) && !penalties_of(sampling, row).none();
}

float clamped(float logit) { return std::clamp(logit, -kLogitLimit, kLogitLimit); }

void apply_mask(const step::SamplingView& sampling, int64_t row, int64_t first_id, int64_t n, float* logits) {
  const uint32_t* words = sampling.masks.row(sampling.mask_index(row)) + first_id / 32;  // pieces start at whole words
  for (int64_t i = 0; i < n; ++i) {
    if ((words[i / 32] >> (i % 32) & 1u) == 0) logits[i] = kMaskedOut;
  }
}

void apply_bias(const step::SamplingView& sampling, int64_t row, int64_t first_id, int64_t n, float* logits) {
  const Range range = entries_in(sampling.bias_offsets, sampling.bias_ids, row, first_id, first_id + n);
  for (int64_t e = range.first; e < range.end; ++e) {
    float& logit = logits[sampling.bias_ids(e) - first_id];
    if (logit != kMaskedOut) logit = clamped(logit + sampling.bias_values(e));
  }
}

/// Repetition sees prompt and output; presence and frequency see the output only.
void apply_penalties(const step::SamplingView& sampling, int64_t row, int64_t first_id, int64_t n, float* logits) {
  const Penalties penalty = penalties_of(sampling, row);
  const Range range = entries_in(sampling.count_offsets, sampling.count_ids, row, first_id, first_id + n);
  for (int64_t e = range.first; e < range.end; ++e) {
    float& logit = logits[sampling.count_ids(e) - first_id];
    if (logit == kMaskedOut) continue;
    const int32_t outputs = sampling.count_outputs(e);
    float value = logit > 0 ? logit / penalty.repetition : logit * penalty.repetition;
    value = clamped(value);  // before the sum: infinity minus infinity is no number
    if (outputs > 0) value = value - penalty.presence - penalty.frequency * static_cast<float>(outputs);
    logit = clamped(value);
  }
}

}  // namespace

void plan_sampling(const step::SamplingView& sampling, int64_t vocab, RowState& row) {
  const int64_t r = row.sampling_row;
  row.logprobs_k = value_or(sampling.logprobs_k, r, -1);
  row.processed = has_mask(sampling, r) || has_entries(sampling.bias_offsets, r) || has_penalties(sampling, r);
  row.temperature = value_or(sampling.temperature, r, 0.0f);
  if (!(row.temperature >= kGreedyTemperature)) {
    row.choice = Choice::kLargest;
    return;
  }
  const int64_t top_k = value_or(sampling.top_k, r, 0);
  const float top_p = value_or(sampling.top_p, r, 1.0f);
  row.top_k = top_k > 0 && top_k < vocab ? top_k : 0;
  row.min_p = value_or(sampling.min_p, r, 0.0f);
  row.bucket_scale = static_cast<float>(kBuckets) / kWeightRange / row.temperature;
  row.choice = row.top_k > 0 ? Choice::kDrawOfTopK : top_p < 1.0f ? Choice::kDrawOfTopP : Choice::kDraw;
}

void process_piece(const HeadPass& pass, const step::SamplingView& sampling, int64_t slot, int64_t piece) {
  const HeadScratch::Impl& scratch = pass.scratch;
  const int64_t r = scratch.row_of_slot(slot).sampling_row;
  const int64_t first_id = piece * kPieceIds;
  const int64_t n = scratch.piece_size(piece);
  float* logits = scratch.logits_row(slot) + first_id;
  if (has_mask(sampling, r)) apply_mask(sampling, r, first_id, n, logits);
  if (has_entries(sampling.bias_offsets, r)) apply_bias(sampling, r, first_id, n, logits);
  if (has_penalties(sampling, r)) apply_penalties(sampling, r, first_id, n, logits);
  kernels::ArgMax& best = scratch.result(slot, piece).best;
  best = pass.ctx.kernels->argmax(logits, n);
  best.index += static_cast<int32_t>(first_id);
}

}  // namespace lockstep::ops
