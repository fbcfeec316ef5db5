// SPDX-License-Identifier: Apache-2.0
// The promise as an experiment: the same requests over every axis that must not matter, bits compared.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/engine_flags.h"
#include "cli/run_requests.h"

namespace lockstep::cli {

/// One way to run the requests.
struct ExactnessCase {
  std::string axis;     ///< "batch", "chunk size", ...
  std::string variant;  ///< "16 together", "1 token", ...
  EngineFlags flags;
  std::string isa;  ///< "" = the best
  enum class Order { kTogether, kReversed, kOneByOne, kTwice } order = Order::kTogether;
  int64_t max_requests = 0;  ///< 0 = all; else the first ones only (slow variants)
};

struct ExactnessRow {
  std::string axis, variant;
  int64_t requests = 0;
  int64_t tokens = 0;   ///< compared
  int64_t unequal = 0;  ///< requests whose tokens or logprob bits differ from the run alone
};

/// Requests of ids: different lengths, greedy and sampled, with logprobs.
std::vector<request::Request> exactness_requests(int64_t vocab_size, int64_t max_model_len, bool quick);
/// All axes for this machine and model.
std::vector<ExactnessCase> exactness_cases(const EngineFlags& flags, bool quick);
/// True if tokens, logprobs and best alternatives have the same bits.
bool same_bits(const RequestResult& a, const RequestResult& b);

}  // namespace lockstep::cli
