// SPDX-License-Identifier: Apache-2.0
#include "sampling/logprobs.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::sampling {

request::TokenLogprobs make_logprobs(float logprob, int32_t rank, std::span<const int32_t> top_ids,
                                     std::span<const float> top_logprobs, int k) {
  LOCKSTEP_CHECK(top_ids.size() == top_logprobs.size());
  request::TokenLogprobs result;
  result.logprob = logprob;
  result.rank = rank;
  const size_t count = std::min(top_ids.size(), static_cast<size_t>(std::max(0, k)));
  result.top.reserve(count);
  for (size_t i = 0; i < count && top_ids[i] >= 0; ++i) result.top.emplace_back(top_ids[i], top_logprobs[i]);
  return result;
}

}  // namespace lockstep::sampling
