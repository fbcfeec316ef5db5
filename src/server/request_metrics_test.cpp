// SPDX-License-Identifier: Apache-2.0
#include "server/request_metrics.h"

#include "gtest/gtest.h"
#include "server/testing.h"

namespace lockstep::server::testing {
namespace {

using std::chrono::milliseconds;

uint64_t total(const Histogram& histogram) {
  uint64_t sum = 0;
  for (const uint64_t count : histogram.values().counts) sum += count;
  return sum;
}

TEST(Histogram, BoundsBelongToTheirBucket) {
  Histogram histogram({1, 2});
  for (const double value : {0.0, 1.0, 1.5, 2.0, 2.5, 100.0}) histogram.observe(value);
  EXPECT_EQ(histogram.values().counts, (std::vector<uint64_t>{2, 2, 2}));
  EXPECT_EQ(histogram.values().sum, 107.0);
}

TEST(RequestTimes, PartsAddUp) {
  RequestHistograms all;
  const RequestTimes::Clock::time_point start(std::chrono::seconds(100));
  RequestTimes times(all, 7, start);
  request::Event next = event({1});
  next.queue_s = 0.25;
  times.event(next, start + milliseconds(1000));
  times.event(next, start + milliseconds(1500));
  next.new_token_ids = {2, 3};
  times.event(next, start + milliseconds(2500));
  EXPECT_EQ(total(all.e2e_latency), 0u);
  times.ended();
  EXPECT_EQ(all.time_to_first_token.values().sum, 1.0);
  EXPECT_EQ(all.inter_token_latency.values().sum, 1.5);
  EXPECT_EQ(total(all.inter_token_latency), 2u);
  EXPECT_EQ(all.time_per_output_token.values().sum, 0.5);
  EXPECT_EQ(all.e2e_latency.values().sum, 2.5);
  EXPECT_EQ(all.queue_time.values().sum, 0.25);
  EXPECT_EQ(all.prefill_time.values().sum, 0.75);
  EXPECT_EQ(all.decode_time.values().sum, 1.5);
  EXPECT_EQ(all.inference_time.values().sum, 2.25);
  EXPECT_EQ(all.prompt_tokens.values().sum, 7.0);
  EXPECT_EQ(all.generation_tokens.values().sum, 4.0);
  for (const auto& [name, help, histogram] : all.all()) EXPECT_GE(total(*histogram), 1u) << name;
}

TEST(RequestTimes, ARunWithoutTokensHasNoFirstToken) {
  RequestHistograms all;
  const RequestTimes::Clock::time_point start(std::chrono::seconds(100));
  RequestTimes times(all, 7, start);
  times.event(event({}, request::FinishReason::kLength), start + milliseconds(500));
  times.ended();
  EXPECT_EQ(total(all.time_to_first_token), 0u);
  EXPECT_EQ(total(all.time_per_output_token), 0u);
  EXPECT_EQ(all.prefill_time.values().sum, 0.5);
  EXPECT_EQ(all.decode_time.values().sum, 0.0);
}

std::string line(const std::string& name, int value) {
  return fmt::format("\n{}{{model_name=\"M\",engine=\"0\"}} {}\n", name, value);
}

TEST(RequestTimes, EveryChoiceCountsAndFailedOnesDoNot) {
  TestServer server([](const request::Request& request) {
    Script script = repeat(370, 3);
    if (request.prompt_token_ids.size() > 3) script.events.back().finish_reason = request::FinishReason::kError;
    return script;
  });
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt":"x","n":2})").status, 200);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt":[370,370,370,370,370]})").status, 500);
  const std::string text = server.get("/metrics").body;
  EXPECT_NE(text.find(line("vllm:e2e_request_latency_seconds_count", 2)), std::string::npos) << text;
  EXPECT_NE(text.find(line("vllm:request_generation_tokens_sum", 6)), std::string::npos);
  EXPECT_NE(text.find(line("vllm:time_to_first_token_seconds_count", 3)), std::string::npos);
  EXPECT_NE(text.find("\nvllm:request_generation_tokens_bucket{model_name=\"M\",engine=\"0\",le=\"2\"} 0\n"),
            std::string::npos);
  EXPECT_NE(text.find("\nvllm:request_generation_tokens_bucket{model_name=\"M\",engine=\"0\",le=\"5\"} 2\n"),
            std::string::npos);
  EXPECT_NE(text.find("\nvllm:request_generation_tokens_bucket{model_name=\"M\",engine=\"0\",le=\"+Inf\"} 2\n"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::server::testing
