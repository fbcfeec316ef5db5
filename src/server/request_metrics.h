// SPDX-License-Identifier: Apache-2.0
// How long requests took, as histograms with vLLM's names and bounds, so that its dashboards and routers read them.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "request/request.h"

namespace lockstep::server {

/// Any thread.
class Histogram final {
 public:
  struct Values {
    std::vector<double> bounds;  ///< upper, inclusive, rising
    std::vector<uint64_t>
        counts;  ///< one for each bound, each without the smaller ones; the last is for what is larger
    double sum = 0;
  };

  explicit Histogram(std::vector<double> bounds);
  void observe(double value);
  Values values() const;

 private:
  mutable std::mutex mutex_;
  Values values_;  // counts and sum guarded by mutex_
};

/// One for each name of /metrics. Seconds are those of the engine's events: writing to a slow client is not in them.
struct RequestHistograms {
  RequestHistograms();

  Histogram time_to_first_token;    ///< from submit
  Histogram inter_token_latency;    ///< one value for each further event with tokens
  Histogram time_per_output_token;  ///< a request's mean, from the second token on
  Histogram e2e_latency;            ///< from submit to the end
  Histogram queue_time;             ///< from submit to the first step
  Histogram prefill_time;           ///< from the first step to the first token (without tokens: to the end)
  Histogram decode_time;            ///< from the first token to the last
  Histogram inference_time;         ///< from the first step to the end
  Histogram prompt_tokens, generation_tokens;

  struct Named {
    std::string_view name, help;
    const Histogram* histogram;
  };
  std::vector<Named> all() const;
};

/// Follows one choice of a request. One thread at a time.
class RequestTimes final {
 public:
  using Clock = std::chrono::steady_clock;

  /// `histograms` must outlive it.
  RequestTimes(RequestHistograms& histograms, size_t prompt_tokens, Clock::time_point submitted);
  void event(const request::Event& event, Clock::time_point when);
  /// After the last event of a run that ended by itself: failed and cancelled runs leave no mark but their tokens'.
  void ended();

 private:
  RequestHistograms* histograms_;
  size_t prompt_tokens_;
  int64_t tokens_ = 0;
  double queue_s_ = 0;
  Clock::time_point submitted_, first_, last_;
};

}  // namespace lockstep::server
