// SPDX-License-Identifier: Apache-2.0
// A request as the engine sees it: token ids in, events out. No text, no tensors.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lockstep::request {

/// How tokens are chosen. Defaults are greedy and neutral; front ends put their own defaults in before submit.
struct SamplingParams {
  double temperature = 0.0;                           ///< 0..2; below 1e-5: greedy
  double top_p = 1.0;                                 ///< (0, 1]
  int64_t top_k = 0;                                  ///< 0 or -1: off; clamped to the vocabulary
  double min_p = 0.0;                                 ///< [0, 1]
  double presence_penalty = 0.0;                      ///< [-2, 2]
  double frequency_penalty = 0.0;                     ///< [-2, 2]
  double repetition_penalty = 1.0;                    ///< (0, 2]
  std::optional<uint64_t> seed;                       ///< absent: drawn at submit, reported in the result
  int32_t choice = 0;                                 ///< index of the choice among n
  std::vector<std::pair<int32_t, float>> logit_bias;  ///< id -> -100..100
  int64_t max_tokens = 16;                            ///< >= 1 (0 only with prompt_logprobs)
  int64_t min_tokens = 0;                             ///< end tokens are masked until then
  bool ignore_eos = false;                            ///< end tokens don't end the run; stop_token_ids still do
  std::vector<int32_t> stop_token_ids;
  std::optional<int> logprobs;         ///< absent: none; 0: the chosen id only; k <= 20: k best too
  std::optional<int> prompt_logprobs;  ///< the same for the prompt
};

/// Ranges as above, against the vocabulary; kInvalidArgument names the field, value and limit.
Status validate(const SamplingParams& params, int64_t vocab_size);

enum class FinishReason { kNone, kStop, kLength, kCancelled, kDeadline, kError };
std::string_view to_string(FinishReason reason);  ///< "stop", "length", "cancelled", "deadline", "error"

struct TokenLogprobs {
  float logprob = std::numeric_limits<float>::quiet_NaN();  ///< of the token itself, ln of the raw softmax
  int32_t rank = 0;                                         ///< prompt tokens only; 1 = most likely, 0 = unknown
  std::vector<std::pair<int32_t, float>> top;               ///< best first
};

/// What a request produced in one step. `new_token_ids` holds end tokens too (the front end hides their text).
struct Event {
  uint64_t request_id = 0;
  std::vector<int32_t> new_token_ids;
  std::vector<TokenLogprobs> logprobs;               ///< one per new token, if asked for
  std::vector<TokenLogprobs> prompt_logprobs;        ///< once, with the first event; entry 0 is unknown (NaN)
  FinishReason finish_reason = FinishReason::kNone;  ///< set exactly once, in the last event
  Status error;                                      ///< set with kError
  int64_t num_cached_tokens = 0;                     ///< prompt tokens that came from the prefix cache
  uint64_t seed = 0;
  double queue_s = 0;  ///< seconds from submit to the first step it was in
};

/// Input of Engine::submit.
struct Request {
  std::vector<int32_t> prompt_token_ids;  ///< at least one
  SamplingParams sampling;
  int32_t priority = 0;             ///< lower runs first
  std::string cache_salt;           ///< prefix cache entries are shared only within one salt
  std::optional<double> timeout_s;  ///< deadline of the whole request from submit
  /// The K/V of so many first prompt tokens is taken to lie in whatever blocks the request gets. For benchmarks over
  /// filled pages (CpuBackend::fill_kv): a decode step at a long context without its prefill. Less than the prompt;
  /// refused with prefix caching, which would share such pages. A preempted request computes them after all.
  int64_t num_precomputed_tokens = 0;
};

}  // namespace lockstep::request
