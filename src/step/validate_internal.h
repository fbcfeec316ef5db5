// SPDX-License-Identifier: Apache-2.0
// Parts of validate_step; private to the room.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "step/step.h"
#include "step/validate.h"

namespace lockstep::step::internal {

/// Sums over a step whose row arguments have been checked.
struct StepTotals {
  int64_t rows = 0;           ///< R
  int64_t tokens = 0;         ///< T
  int64_t decode_tokens = 0;  ///< tokens of the first D rows
  int64_t sampled = 0;        ///< S
};

/// rank 1 with exactly n entries; when `optional`, an empty view passes too.
template <class T>
Status expect_vector(const View<T>& view, std::string_view name, int64_t n, bool optional = false) {
  if (view.empty() && (optional || n == 0)) return {};
  if (view.empty()) return invalid_argument("{} is missing, expected [{}]", name, n);
  if (view.rank() != 1 || view.extent(0) != n) {
    return invalid_argument("{} has rank {} and {} rows, expected [{}]", name, view.rank(), view.extent(0), n);
  }
  return {};
}

/// A row none of whose tokens has a slot. Only after the slot mapping's shape has been checked.
inline bool is_idle(const StepArgs& args, int64_t first_token) { return args.slot_mapping(first_token) == -1; }

Status check_rows(const StepArgs& args, const StepLimits& limits, StepTotals& totals);
Status check_tokens(const StepArgs& args, const StepLimits& limits, const StepTotals& totals);
Status check_pages(const StepArgs& args, const StepLimits& limits, const StepTotals& totals,
                   ValidationScratch& scratch);
Status check_score_and_pooling(const StepArgs& args, const StepLimits& limits, const StepTotals& totals);
Status check_sampling(const SamplingView& sampling, const StepLimits& limits, const StepTotals& totals);
Status check_outputs(const StepArgs& args, const StepOutputs& outputs, const StepLimits& limits,
                     const StepTotals& totals);

}  // namespace lockstep::step::internal
