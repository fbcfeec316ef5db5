// SPDX-License-Identifier: Apache-2.0
#include "step/validate.h"

#include <algorithm>

#include "step/validate_internal.h"

namespace lockstep::step {

ValidationScratch::ValidationScratch(const StepLimits& limits) {
  slots.reserve(static_cast<size_t>(std::max<int64_t>(limits.max_num_batched_tokens, 0)));
}

Status validate_step(const StepArgs& args, const StepOutputs& outputs, const StepLimits& limits,
                     ValidationScratch& scratch) {
  internal::StepTotals totals;
  LOCKSTEP_RETURN_IF_ERROR(internal::check_rows(args, limits, totals));
  LOCKSTEP_RETURN_IF_ERROR(internal::check_tokens(args, limits, totals));
  LOCKSTEP_RETURN_IF_ERROR(internal::check_pages(args, limits, totals, scratch));
  LOCKSTEP_RETURN_IF_ERROR(internal::check_score_and_pooling(args, limits, totals));
  LOCKSTEP_RETURN_IF_ERROR(internal::check_sampling(args.sampling, limits, totals));
  return internal::check_outputs(args, outputs, limits, totals);
}

}  // namespace lockstep::step
