// SPDX-License-Identifier: Apache-2.0
#include "server/request_metrics.h"

#include <algorithm>
#include <utility>

namespace lockstep::server {

namespace {

std::vector<double> first_token_bounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
          1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
}

std::vector<double> token_bounds() {
  return {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
}

std::vector<double> request_bounds() {
  return {0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
}

std::vector<double> count_bounds() {
  std::vector<double> bounds;
  for (double unit = 1; unit <= 1e5; unit *= 10) {
    for (const double step : {1, 2, 5}) bounds.push_back(step * unit);
  }
  return bounds;
}

double seconds(RequestTimes::Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Histogram::Histogram(std::vector<double> bounds) {
  values_.counts.resize(bounds.size() + 1);
  values_.bounds = std::move(bounds);
}

void Histogram::observe(double value) {
  const auto found = std::lower_bound(values_.bounds.begin(), values_.bounds.end(), value);
  const auto index = static_cast<size_t>(found - values_.bounds.begin());
  const std::lock_guard lock(mutex_);
  ++values_.counts[index];
  values_.sum += value;
}

Histogram::Values Histogram::values() const {
  const std::lock_guard lock(mutex_);
  return values_;
}

RequestHistograms::RequestHistograms()
    : time_to_first_token(first_token_bounds()),
      inter_token_latency(token_bounds()),
      time_per_output_token(token_bounds()),
      e2e_latency(request_bounds()),
      queue_time(request_bounds()),
      prefill_time(request_bounds()),
      decode_time(request_bounds()),
      inference_time(request_bounds()),
      prompt_tokens(count_bounds()),
      generation_tokens(count_bounds()) {}

std::vector<RequestHistograms::Named> RequestHistograms::all() const {
  return {
      {"vllm:time_to_first_token_seconds", "From submission to the first token.", &time_to_first_token},
      {"vllm:inter_token_latency_seconds", "Between two tokens of a request.", &inter_token_latency},
      {"vllm:request_time_per_output_token_seconds", "Mean time of a request's tokens after the first.",
       &time_per_output_token},
      {"vllm:e2e_request_latency_seconds", "From submission to the end.", &e2e_latency},
      {"vllm:request_queue_time_seconds", "From submission to the first step.", &queue_time},
      {"vllm:request_prefill_time_seconds", "From the first step to the first token.", &prefill_time},
      {"vllm:request_decode_time_seconds", "From the first token to the last.", &decode_time},
      {"vllm:request_inference_time_seconds", "From the first step to the end.", &inference_time},
      {"vllm:request_prompt_tokens", "Prompt tokens of a request.", &prompt_tokens},
      {"vllm:request_generation_tokens", "Tokens generated for a request.", &generation_tokens},
  };
}

RequestTimes::RequestTimes(RequestHistograms& histograms, size_t prompt_tokens, Clock::time_point submitted)
    : histograms_(&histograms),
      prompt_tokens_(prompt_tokens),
      submitted_(submitted),
      first_(submitted),
      last_(submitted) {}

void RequestTimes::event(const request::Event& event, Clock::time_point when) {
  queue_s_ = event.queue_s;
  if (!event.new_token_ids.empty()) {
    if (tokens_ == 0) {
      first_ = when;
      histograms_->time_to_first_token.observe(seconds(when - submitted_));
    } else {
      histograms_->inter_token_latency.observe(seconds(when - last_));
    }
    tokens_ += static_cast<int64_t>(event.new_token_ids.size());
  } else if (tokens_ == 0) {
    first_ = when;
  }
  last_ = when;
}

void RequestTimes::ended() {
  const double total = seconds(last_ - submitted_);
  const double decode = seconds(last_ - first_);
  histograms_->e2e_latency.observe(total);
  histograms_->queue_time.observe(queue_s_);
  // The engine's clock and this one are read at different moments: no negative times.
  histograms_->prefill_time.observe(std::max(0.0, total - decode - queue_s_));
  histograms_->decode_time.observe(decode);
  histograms_->inference_time.observe(std::max(0.0, total - queue_s_));
  if (tokens_ > 1) histograms_->time_per_output_token.observe(decode / static_cast<double>(tokens_ - 1));
  histograms_->prompt_tokens.observe(static_cast<double>(prompt_tokens_));
  histograms_->generation_tokens.observe(static_cast<double>(tokens_));
}

}  // namespace lockstep::server
