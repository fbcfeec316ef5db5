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
  enum class Order {
    kTogether,
    kReversed,
    kOneByOne,
    kTwice,         ///< all, then all again
    kPartlyWarm,    ///< all with prompts cut to two thirds, then all
    kAtRandomTimes  ///< submitted in a random order, pauses of 0 to 3 ms between
  } order = Order::kTogether;
  int64_t max_requests = 0;      ///< 0 = all; else the first ones only (slow variants)
  bool shared_prefixes = false;  ///< the requests of shared_prefix_requests() instead
  bool must_preempt = false;     ///< the pool is so small that requests are preempted; a run without is a failure
};

struct ExactnessRow {
  std::string axis, variant;
  int64_t requests = 0;
  int64_t tokens = 0;   ///< compared
  int64_t unequal = 0;  ///< requests whose tokens or logprob bits differ from the run alone
  int64_t preemptions = 0;
  bool failed = false;  ///< unequal bits, or nothing was preempted where something must be
};

/// Requests of ids: different lengths, greedy and sampled, with logprobs.
std::vector<request::Request> exactness_requests(int64_t vocab_size, int64_t max_model_len, bool quick);
/// 64 requests of ids in four families that begin alike, with tails and lengths of their own. None if a context of
/// max_model_len is too short.
std::vector<request::Request> shared_prefix_requests(int64_t vocab_size, int64_t max_model_len);
/// All axes for this machine and model.
std::vector<ExactnessCase> exactness_cases(const EngineFlags& flags, bool quick);
/// True if tokens, logprobs and best alternatives have the same bits.
bool same_bits(const RequestResult& a, const RequestResult& b);

}  // namespace lockstep::cli
