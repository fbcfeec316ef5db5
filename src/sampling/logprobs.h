// SPDX-License-Identifier: Apache-2.0
// From a step's output arrays to the logprobs that a request's events carry.
#pragma once

#include <cstdint>
#include <span>

#include "request/request.h"

namespace lockstep::sampling {

/// top_ids and top_logprobs are one position's entries, best first; at most k of them are taken, and none with id -1.
request::TokenLogprobs make_logprobs(float logprob, int32_t rank, std::span<const int32_t> top_ids,
                                     std::span<const float> top_logprobs, int k);

}  // namespace lockstep::sampling
