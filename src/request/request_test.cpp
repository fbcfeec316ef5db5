// SPDX-License-Identifier: Apache-2.0
#include "request/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace lockstep::request {
namespace {

using testing::HasSubstr;

constexpr int64_t kVocab = 100;

Status with(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params;
  change(params);
  return validate(params, kVocab);
}

TEST(SamplingParams, DefaultsAreValid) { EXPECT_TRUE(validate(SamplingParams{}, kVocab).ok()); }

TEST(SamplingParams, EdgesAreInside) {
  EXPECT_TRUE(with([](auto& p) { p.temperature = 2.0, p.top_p = 1e-9, p.top_k = -1, p.min_p = 1.0; }).ok());
  EXPECT_TRUE(with([](auto& p) { p.top_k = 9999999; }).ok());
  EXPECT_TRUE(
      with([](auto& p) { p.repetition_penalty = 2.0, p.presence_penalty = -2.0, p.frequency_penalty = 2.0; }).ok());
  EXPECT_TRUE(with([](auto& p) { p.logit_bias = {{0, -100.0F}, {99, 100.0F}}, p.stop_token_ids = {0, 99}; }).ok());
  EXPECT_TRUE(with([](auto& p) { p.logprobs = 20, p.prompt_logprobs = 0, p.max_tokens = 0; }).ok());
  EXPECT_TRUE(with([](auto& p) { p.min_tokens = p.max_tokens = 5; }).ok());
  EXPECT_TRUE(with([](auto& p) { p.temperature = -0.0; }).ok());
}

struct Refusal {
  const char* field;
  std::function<void(SamplingParams&)> change;
};

TEST(SamplingParams, RefusalsNameTheField) {
  const Refusal refusals[] = {
      {"temperature", [](auto& p) { p.temperature = -1.0; }},
      {"temperature", [](auto& p) { p.temperature = 2.01; }},
      {"temperature", [](auto& p) { p.temperature = std::nan(""); }},
      {"top_p", [](auto& p) { p.top_p = 0.0; }},
      {"top_p", [](auto& p) { p.top_p = 1.1; }},
      {"top_p", [](auto& p) { p.top_p = std::nan(""); }},
      {"top_k", [](auto& p) { p.top_k = -2; }},
      {"min_p", [](auto& p) { p.min_p = 1.5; }},
      {"presence_penalty", [](auto& p) { p.presence_penalty = 2.5; }},
      {"frequency_penalty", [](auto& p) { p.frequency_penalty = -INFINITY; }},
      {"repetition_penalty", [](auto& p) { p.repetition_penalty = 0.0; }},
      {"choice", [](auto& p) { p.choice = -1; }},
      {"logit_bias", [](auto& p) { p.logit_bias = {{100, 1.0F}}; }},
      {"logit_bias", [](auto& p) { p.logit_bias = {{-1, 1.0F}}; }},
      {"logit_bias value", [](auto& p) { p.logit_bias = {{1, 100.5F}}; }},
      {"max_tokens", [](auto& p) { p.max_tokens = 0; }},
      {"max_tokens", [](auto& p) { p.max_tokens = -1, p.prompt_logprobs = 1; }},
      {"min_tokens", [](auto& p) { p.min_tokens = p.max_tokens + 1; }},
      {"stop_token_ids", [](auto& p) { p.stop_token_ids = {100}; }},
      {"logprobs", [](auto& p) { p.logprobs = 21; }},
      {"prompt_logprobs", [](auto& p) { p.prompt_logprobs = -1; }},
  };
  for (const Refusal& refusal : refusals) {
    const Status status = with(refusal.change);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << refusal.field;
    EXPECT_THAT(status.message(), HasSubstr(refusal.field));
  }
}

TEST(FinishReason, Names) {
  EXPECT_EQ(to_string(FinishReason::kStop), "stop");
  EXPECT_EQ(to_string(FinishReason::kLength), "length");
  EXPECT_EQ(to_string(FinishReason::kCancelled), "cancelled");
  EXPECT_EQ(to_string(FinishReason::kDeadline), "deadline");
  EXPECT_EQ(to_string(FinishReason::kError), "error");
}

}  // namespace
}  // namespace lockstep::request
