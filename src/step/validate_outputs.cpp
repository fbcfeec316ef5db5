// SPDX-License-Identifier: Apache-2.0
// The output views of a step: present where needed, of the right type and shape.
#include <algorithm>
#include <initializer_list>

#include "step/validate_internal.h"

namespace lockstep::step::internal {
namespace {

enum class Need { kAlways, kIfGiven, kNever };

/// A view of `dtype` and exactly `shape`. With no rows at all an empty view is as good.
Status expect_output(const DeviceView& view, std::string_view name, Need need, DType dtype, int64_t rows,
                     int64_t columns = -1) {
  if (view.empty()) {
    if (need != Need::kAlways || rows == 0) return {};
    return invalid_argument("{} is missing, expected {} with {} rows", name, to_string(dtype), rows);
  }
  if (need == Need::kNever) return invalid_argument("{} is given, but nothing in the step asks for it", name);
  if (view.dtype() != dtype) {
    return invalid_argument("{} has type {}, expected {}", name, to_string(view.dtype()), to_string(dtype));
  }
  const int rank = columns < 0 ? 1 : 2;
  if (view.rank() != rank) return invalid_argument("{} has rank {}, expected {}", name, view.rank(), rank);
  if (view.extent(0) != rows) return invalid_argument("{} has {} rows, expected {}", name, view.extent(0), rows);
  if (rank == 2 && view.extent(1) != columns) {
    return invalid_argument("{} has {} columns, expected {}", name, view.extent(1), columns);
  }
  return {};
}

int64_t largest_logprobs_k(const SamplingView& sampling, int64_t rows) {
  int64_t k = -1;
  if (sampling.logprobs_k.empty()) return k;
  for (int64_t row = 0; row < rows; ++row) k = std::max<int64_t>(k, sampling.logprobs_k(row));
  return k;
}

Status check_logprob_outputs(const StepArgs& args, const StepOutputs& outputs, const StepTotals& totals) {
  const int64_t k = largest_logprobs_k(args.sampling, totals.rows);
  LOCKSTEP_RETURN_IF_ERROR(expect_output(outputs.logprobs, "logprobs", k >= 0 ? Need::kAlways : Need::kIfGiven,
                                         DType::kF32, totals.sampled));
  const Need top = k > 0 ? Need::kAlways : Need::kNever;
  LOCKSTEP_RETURN_IF_ERROR(expect_output(outputs.top_ids, "top_ids", top, DType::kI32, totals.sampled, k));
  return expect_output(outputs.top_logprobs, "top_logprobs", top, DType::kF32, totals.sampled, k);
}

Status check_score_outputs(const StepArgs& args, const StepOutputs& outputs, const StepTotals& totals) {
  const bool scored = !args.score_targets.empty();
  const Need optional = scored ? Need::kIfGiven : Need::kNever;
  const int64_t tokens = totals.tokens;
  LOCKSTEP_RETURN_IF_ERROR(expect_output(outputs.score_logprobs, "score_logprobs",
                                         scored ? Need::kAlways : Need::kNever, DType::kF32, tokens));
  LOCKSTEP_RETURN_IF_ERROR(expect_output(outputs.score_ranks, "score_ranks", optional, DType::kI32, tokens));
  const DeviceView& ids = outputs.score_top_ids;
  const DeviceView& values = outputs.score_top_logprobs;
  if (ids.empty() != values.empty()) {
    return invalid_argument("{} is missing, it goes with {}", ids.empty() ? "score_top_ids" : "score_top_logprobs",
                            ids.empty() ? "score_top_logprobs" : "score_top_ids");
  }
  if (ids.empty()) return {};
  const int64_t k = ids.rank() == 2 ? ids.extent(1) : 0;
  if (k < 1 || k > kMaxLogprobs)
    return invalid_argument("score_top_ids has {} columns, expected 1 to {}", k, kMaxLogprobs);
  LOCKSTEP_RETURN_IF_ERROR(expect_output(ids, "score_top_ids", optional, DType::kI32, tokens, k));
  return expect_output(values, "score_top_logprobs", optional, DType::kF32, tokens, k);
}

bool any_pooling(const StepArgs& args, int64_t rows) {
  for (int64_t row = 0; row < rows && !args.pooling.empty(); ++row) {
    if (args.pooling(row) != static_cast<int32_t>(Pooling::kNone)) return true;
  }
  return false;
}

}  // namespace

Status check_outputs(const StepArgs& args, const StepOutputs& outputs, const StepLimits& limits,
                     const StepTotals& totals) {
  const Need ids = totals.sampled > 0 ? Need::kAlways : Need::kIfGiven;
  LOCKSTEP_RETURN_IF_ERROR(
      expect_output(outputs.sampled_ids, "sampled_ids", ids, DType::kI32, totals.rows, kTokenWidth));
  LOCKSTEP_RETURN_IF_ERROR(expect_output(outputs.row_status, "row_status", Need::kAlways, DType::kI32, totals.rows));
  LOCKSTEP_RETURN_IF_ERROR(check_logprob_outputs(args, outputs, totals));
  LOCKSTEP_RETURN_IF_ERROR(
      expect_output(outputs.logits, "logits", Need::kIfGiven, DType::kF32, totals.sampled, limits.padded_vocab));
  LOCKSTEP_RETURN_IF_ERROR(expect_output(outputs.next_hidden, "next_hidden", Need::kIfGiven, DType::kF32,
                                         totals.sampled, limits.hidden_size));
  const Need pooled = any_pooling(args, totals.rows) ? Need::kAlways : Need::kIfGiven;
  LOCKSTEP_RETURN_IF_ERROR(
      expect_output(outputs.pooled, "pooled", pooled, DType::kF32, totals.rows, limits.hidden_size));
  return check_score_outputs(args, outputs, totals);
}

}  // namespace lockstep::step::internal
