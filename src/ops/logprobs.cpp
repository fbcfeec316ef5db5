// SPDX-License-Identifier: Apache-2.0
// Log-softmax of raw logits: (logit - max) - log(sum of exp(logit - max)), the sum over fixed pieces of the vocabulary
// added ascending.
#include <algorithm>

#include "ops/head_scratch.h"

namespace lockstep::ops {
namespace {

bool before(const TopEntry& a, const TopEntry& b) { return a.logit > b.logit || (a.logit == b.logit && a.id < b.id); }

/// The k first of a piece in (logit descending, id ascending), sorted; pads with masked entries.
void find_top(const float* logits, int64_t n, int32_t first_id, int32_t k, TopEntry* top) {
  std::fill_n(top, k, TopEntry{-std::numeric_limits<float>::infinity(), std::numeric_limits<int32_t>::max()});
  float worst = top[k - 1].logit;
  for (int64_t i = 0; i < n; ++i) {
    if (!(logits[i] > worst)) continue;  // an equal one has a larger id than those that are in
    int32_t at = k - 1;
    for (; at > 0 && logits[i] > top[at - 1].logit; --at) top[at] = top[at - 1];
    top[at] = {logits[i], first_id + static_cast<int32_t>(i)};
    worst = top[k - 1].logit;
  }
}

int32_t count_before(const float* logits, int64_t n, int32_t first_id, float target_logit, int32_t target) {
  int32_t above = 0, equal = 0;
  const int64_t ids_before = std::clamp<int64_t>(int64_t{target} - first_id, 0, n);
  for (int64_t i = 0; i < n; ++i) above += logits[i] > target_logit ? 1 : 0;
  for (int64_t i = 0; i < ids_before; ++i) equal += logits[i] == target_logit ? 1 : 0;
  return above + equal;
}

}  // namespace

void gather_statistics(const HeadPass& pass, int64_t slot, int64_t piece, int32_t k) {
  const HeadScratch::Impl& scratch = pass.scratch;
  const RowState& row = scratch.row_of_slot(slot);
  const auto first_id = static_cast<int32_t>(piece * kPieceIds);
  const float* logits = scratch.logits_row(slot);
  const int64_t n = scratch.piece_size(piece);
  PieceResult& result = scratch.result(slot, piece);
  result.sum_exp = pass.ctx.kernels->sum_exp(logits + first_id, n, row.raw_max);
  if (k > 0) find_top(logits + first_id, n, first_id, k, scratch.top(slot, piece));
  if (row.target >= 0) result.above = count_before(logits + first_id, n, first_id, logits[row.target], row.target);
}

float log_sum_exp(const HeadScratch::Impl& scratch, int64_t slot) {
  double sum = 0;
  for (int64_t piece = 0; piece < scratch.pieces; ++piece) sum += double{scratch.result(slot, piece).sum_exp};
  return kernels::log_ref(static_cast<float>(sum));
}

int32_t rank_of_target(const HeadScratch::Impl& scratch, int64_t slot) {
  int32_t rank = 1;
  for (int64_t piece = 0; piece < scratch.pieces; ++piece) rank += scratch.result(slot, piece).above;
  return rank;
}

void merge_top(const HeadScratch::Impl& scratch, int64_t slot, int32_t k, int32_t* ids, float* logprobs) {
  const float max = scratch.row_of_slot(slot).raw_max;
  const float log_sum = log_sum_exp(scratch, slot);
  TopEntry top[step::kMaxLogprobs];
  std::copy_n(scratch.top(slot, 0), k, top);
  for (int64_t piece = 1; piece < scratch.pieces; ++piece) {
    const TopEntry* other = scratch.top(slot, piece);
    for (int32_t i = 0; i < k && before(other[i], top[k - 1]); ++i) {
      int32_t at = k - 1;
      for (; at > 0 && before(other[i], top[at - 1]); --at) top[at] = top[at - 1];
      top[at] = other[i];
    }
  }
  for (int32_t i = 0; i < k; ++i) {
    ids[i] = top[i].id;
    logprobs[i] = (top[i].logit - max) - log_sum;
  }
}

}  // namespace lockstep::ops
