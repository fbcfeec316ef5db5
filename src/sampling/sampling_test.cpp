// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sampling/logprobs.h"
#include "sampling/sampling_batch.h"

namespace lockstep::sampling {
namespace {

using request::SamplingParams;
using testing::ElementsAre;
using testing::Pair;

template <class T>
std::vector<T> values(const View<const T>& view) {
  return {view.data(), view.data() + view.size()};
}

std::vector<std::pair<int32_t, int32_t>> pairs(const TokenCounts& counts) {
  std::vector<std::pair<int32_t, int32_t>> result;
  for (const auto& entry : counts.entries()) result.emplace_back(entry.id, entry.outputs);
  return result;
}

TEST(TokenCounts, PromptAndOutputAreToldApart) {
  TokenCounts counts;
  const std::vector<int32_t> tokens = {5, 1, 5, 9, 5, 9};
  counts.update(1, std::span(tokens).first(3), 3, 8);
  EXPECT_THAT(pairs(counts), ElementsAre(Pair(1, 0), Pair(5, 0)));
  counts.update(1, tokens, 3, 8);
  EXPECT_THAT(pairs(counts), ElementsAre(Pair(1, 0), Pair(5, 1), Pair(9, 2)));
}

TEST(TokenCounts, ANewOwnerOrFewerTokensStartAgain) {
  TokenCounts counts;
  const std::vector<int32_t> first = {1, 2, 3};
  counts.update(1, first, 1, 8);
  const std::vector<int32_t> second = {7, 7, 2, 2};
  counts.update(2, second, 2, 8);
  EXPECT_THAT(pairs(counts), ElementsAre(Pair(2, 2), Pair(7, 0)));
  counts.update(2, std::span(second).first(3), 2, 8);
  EXPECT_THAT(pairs(counts), ElementsAre(Pair(2, 1), Pair(7, 0)));
}

TEST(Normalise, SortsBiasAndKeepsTheLastOfEqualIds) {
  SamplingParams params;
  params.logit_bias = {{9, 1.0F}, {2, 3.0F}, {9, 4.0F}, {0, 5.0F}};
  normalise(params);
  EXPECT_THAT(params.logit_bias, ElementsAre(Pair(0, 5.0F), Pair(2, 3.0F), Pair(9, 4.0F)));
}

class SamplingBatchTest : public testing::Test {
 protected:
  SamplingRow row(const SamplingParams& params, int64_t samples = 1) {
    SamplingRow result;
    result.request_id = ++id_;
    result.slot = static_cast<int32_t>(id_ % 4);
    result.num_samples = samples;
    result.seed = 100 + id_;
    result.params = &params;
    return result;
  }

  static constexpr int64_t kVocab = 70;
  std::vector<int32_t> eos_ = {3, 64};
  SamplingBatch batch_{4, kVocab, eos_};
  CountsBySlot counts_{4};
  uint64_t id_ = 0;
};

TEST_F(SamplingBatchTest, GreedyRowsLeaveEveryGroupEmpty) {
  const SamplingParams greedy;
  SamplingParams tiny;
  tiny.temperature = 1e-6;
  batch_.begin_call();
  batch_.add(row(greedy), counts_);
  batch_.add(row(tiny), counts_);
  const step::SamplingView view = batch_.view(0);
  EXPECT_TRUE(view.temperature.empty());
  EXPECT_TRUE(view.count_offsets.empty());
  EXPECT_TRUE(view.bias_offsets.empty());
  EXPECT_TRUE(view.mask_index.empty());
  EXPECT_TRUE(view.logprobs_k.empty());
  EXPECT_EQ(batch_.logprobs_k(0), -1);
}

TEST_F(SamplingBatchTest, DrawParametersBesideAGreedyRow) {
  const SamplingParams greedy;
  SamplingParams drawn;
  drawn.temperature = 0.5;
  drawn.top_k = 9999;
  drawn.top_p = 1e-60;
  drawn.min_p = 0.25;
  drawn.choice = 2;
  batch_.begin_call();
  batch_.add(row(greedy), counts_);
  batch_.add(row(drawn), counts_);
  batch_.add(row(drawn, 0), counts_);
  const step::SamplingView view = batch_.view(0);
  EXPECT_THAT(values(view.temperature), ElementsAre(0.0F, 0.5F, 0.0F));
  EXPECT_THAT(values(view.top_k), ElementsAre(0, kVocab, 0));
  EXPECT_GT(view.top_p(1), 0.0F);
  EXPECT_THAT(values(view.min_p), ElementsAre(0.0F, 0.25F, 0.0F));
  EXPECT_THAT(values(view.seed), ElementsAre(101U, 102U, 0U));
  EXPECT_THAT(values(view.choice), ElementsAre(0, 2, 0));
}

TEST_F(SamplingBatchTest, PenaltiesCarryCounts) {
  const SamplingParams greedy;
  SamplingParams penal;
  penal.frequency_penalty = 0.25;
  penal.repetition_penalty = 2.0;
  const std::vector<int32_t> tokens = {1, 2, 2};
  SamplingRow counted = row(penal);
  counted.tokens = tokens;
  counted.num_prompt = 1;
  batch_.begin_call();
  batch_.add(row(greedy), counts_);
  batch_.add(counted, counts_);
  const step::SamplingView view = batch_.view(0);
  EXPECT_THAT(values(view.repetition_penalty), ElementsAre(1.0F, 2.0F));
  EXPECT_THAT(values(view.frequency_penalty), ElementsAre(0.0F, 0.25F));
  EXPECT_THAT(values(view.count_offsets), ElementsAre(0, 0, 2));
  EXPECT_THAT(values(view.count_ids), ElementsAre(1, 2));
  EXPECT_THAT(values(view.count_outputs), ElementsAre(0, 2));
}

TEST_F(SamplingBatchTest, EachCallHasOffsetsOfItsOwn) {
  SamplingParams biased;
  biased.logit_bias = {{4, 1.5F}, {6, -2.0F}};
  const SamplingParams greedy;
  batch_.begin_call();
  batch_.add(row(biased), counts_);
  batch_.begin_call();
  batch_.add(row(greedy), counts_);
  batch_.begin_call();
  batch_.add(row(greedy), counts_);
  batch_.add(row(biased), counts_);
  ASSERT_EQ(batch_.num_calls(), 3);
  EXPECT_THAT(values(batch_.view(0).bias_offsets), ElementsAre(0, 2));
  EXPECT_TRUE(batch_.view(1).bias_offsets.empty());
  EXPECT_THAT(values(batch_.view(2).bias_offsets), ElementsAre(0, 0, 2));
  EXPECT_THAT(values(batch_.view(2).bias_ids), ElementsAre(4, 6));
  EXPECT_THAT(values(batch_.view(2).bias_values), ElementsAre(1.5F, -2.0F));
  batch_.clear();
  EXPECT_EQ(batch_.num_calls(), 0);
}

TEST_F(SamplingBatchTest, EndTokensAreMaskedUntilMinTokens) {
  SamplingParams params;
  params.max_tokens = 9;
  params.min_tokens = 5;
  params.stop_token_ids = {69};
  SamplingRow early = row(params);
  early.num_generated = 4;
  SamplingRow late = row(params);
  late.num_generated = 5;
  SamplingParams ignoring = params;
  ignoring.ignore_eos = true;
  batch_.begin_call();
  batch_.add(late, counts_);
  batch_.add(early, counts_);
  batch_.add(row(ignoring), counts_);
  const step::SamplingView view = batch_.view(0);
  EXPECT_THAT(values(view.mask_index), ElementsAre(-1, 0, 1));
  ASSERT_EQ(view.masks.extent(1), 3);
  const auto allowed = [&](int64_t mask, int64_t id) { return (view.masks(mask, id / 32) >> (id % 32) & 1U) != 0; };
  for (int64_t id = 0; id < kVocab; ++id) {
    EXPECT_EQ(allowed(0, id), id != 3 && id != 64 && id != 69) << id;
    EXPECT_EQ(allowed(1, id), id != 69) << id;
  }
}

TEST_F(SamplingBatchTest, LogprobsOfTheCallAreTheLargestAskedFor) {
  SamplingParams none, chosen, five;
  chosen.logprobs = 0;
  five.logprobs = 5;
  batch_.begin_call();
  batch_.add(row(none), counts_);
  batch_.add(row(chosen), counts_);
  batch_.add(row(five), counts_);
  batch_.begin_call();
  batch_.add(row(chosen), counts_);
  EXPECT_EQ(batch_.logprobs_k(0), 5);
  EXPECT_EQ(batch_.logprobs_k(1), 0);
  EXPECT_THAT(values(batch_.view(0).logprobs_k), ElementsAre(-1, 0, 5));
}

TEST(MakeLogprobs, TakesAtMostKAndStopsAtTheEnd) {
  const std::vector<int32_t> ids = {7, 8, -1};
  const std::vector<float> lps = {-0.5F, -1.5F, 0.0F};
  EXPECT_THAT(make_logprobs(-2.0F, 3, ids, lps, 1).top, ElementsAre(Pair(7, -0.5F)));
  EXPECT_THAT(make_logprobs(-2.0F, 3, ids, lps, 20).top, ElementsAre(Pair(7, -0.5F), Pair(8, -1.5F)));
  const auto none = make_logprobs(-2.0F, 3, ids, lps, 0);
  EXPECT_TRUE(none.top.empty());
  EXPECT_EQ(none.logprob, -2.0F);
  EXPECT_EQ(none.rank, 3);
}

}  // namespace
}  // namespace lockstep::sampling
