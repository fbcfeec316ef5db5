// SPDX-License-Identifier: Apache-2.0
#include "backend/fake/fake_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "backend/fake/fake_model.h"
#include "step/testing.h"

namespace lockstep::backend {
namespace {

using step::testing::RowSpec;
using step::testing::StagedStep;
using testing::ElementsAre;
using testing::HasSubstr;

RowSpec row_of(std::vector<int32_t> tokens, int64_t start, int32_t samples, std::vector<int32_t> pages,
               int32_t source = -1) {
  RowSpec row;
  row.tokens = std::move(tokens);
  row.start = start;
  row.samples = samples;
  row.pages = std::move(pages);
  row.source = source;
  return row;
}

class FakeBackendTest : public testing::Test {
 protected:
  void make(FakeOptions options) {
    backend_ = make_fake_backend(std::move(options));
    StepShape shape;
    shape.max_num_seqs = 4;
    shape.max_num_batched_tokens = 64;
    shape.max_step_width = 8;
    shape.max_model_len = 128;
    ASSERT_TRUE(backend_->warm_up(shape).ok());
    step::KvGeometry kv{.num_layers = 1, .num_kv_heads = 1, .head_dim = 16, .block_size = 16, .num_blocks = 8};
    ASSERT_TRUE(backend_->allocate_kv(kv).ok());
  }

  step::StepOutputs outputs(const StagedStep& staged, int set = 0) {
    step::StepOutputs out;
    auto& ids = ids_[static_cast<size_t>(set)];
    ids.assign(4 * 8, -7);
    status_.assign(4, -7);
    out.sampled_ids = step::DeviceView(ids.data(), DType::kI32, {staged.rows(), 8});
    out.row_status = step::DeviceView(status_.data(), DType::kI32, {staged.rows()});
    return out;
  }

  Status run(const StagedStep& staged) {
    const auto ticket = backend_->submit(staged.args, outputs(staged));
    if (!ticket) return ticket.error();
    return backend_->wait(*ticket);
  }

  int32_t expected(const std::vector<int32_t>& tokens) {
    return fake_next_token(fake_digest(tokens), FakeChoice{}, 1000);
  }

  std::unique_ptr<Backend> backend_;
  std::array<std::vector<int32_t>, 2> ids_;
  std::vector<int32_t> status_;
};

TEST_F(FakeBackendTest, ChunksDecodeAndWidthGiveTheSameTokens) {
  make({});
  std::vector<int32_t> tokens(21);
  std::iota(tokens.begin(), tokens.end(), 5);
  const auto part = [&](int64_t first, int64_t last) {
    return std::vector<int32_t>(tokens.begin() + first, tokens.begin() + last);
  };
  ASSERT_TRUE(run(StagedStep(1, 0, {row_of(tokens, 0, 1, {5, 2})}, 16, 8)).ok());
  EXPECT_EQ(ids_[0][0], expected(tokens));
  EXPECT_EQ(ids_[0][1], -7);
  EXPECT_THAT(status_, ElementsAre(0, -7, -7, -7));
  // The same in two chunks on other pages, the second as a verify row of width 3.
  ASSERT_TRUE(run(StagedStep(2, 0, {row_of(part(0, 18), 0, 0, {1, 7})}, 16, 8)).ok());
  ASSERT_TRUE(run(StagedStep(3, 1, {row_of(part(18, 21), 18, 3, {1, 7})}, 16, 8)).ok());
  EXPECT_EQ(ids_[0][0], expected(part(0, 19)));
  EXPECT_EQ(ids_[0][1], expected(part(0, 20)));
  EXPECT_EQ(ids_[0][2], expected(tokens));
}

TEST_F(FakeBackendTest, AWrongPageChangesTheStream) {
  make({});
  const std::vector<int32_t> tokens(17, 3);
  ASSERT_TRUE(run(StagedStep(1, 0, {row_of(tokens, 0, 1, {0, 1})}, 16, 8)).ok());
  ASSERT_TRUE(run(StagedStep(2, 1, {row_of({4}, 17, 1, {2, 1})}, 16, 8)).ok());
  std::vector<int32_t> all = tokens;
  all.push_back(4);
  EXPECT_NE(ids_[0][0], expected(all));
}

TEST_F(FakeBackendTest, TheStepAheadReadsTheTokenOfTheStepBefore) {
  make({});
  StagedStep first(1, 0, {row_of({8}, 0, 1, {3}), row_of({9, 10}, 0, 1, {4})}, 16, 8);
  StagedStep second(2, 1, {row_of({0}, 2, 1, {4}, 1)}, 16, 8);
  const auto a = backend_->submit(first.args, outputs(first, 0));
  const auto b = backend_->submit(second.args, outputs(second, 1));
  ASSERT_TRUE(a && b);
  EXPECT_EQ(backend_->submit(second.args, outputs(second, 1)).error().code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(backend_->wait(*b).ok());
  ASSERT_TRUE(backend_->wait(*a).ok());
  ASSERT_TRUE(backend_->wait(*b).ok());
  EXPECT_EQ(ids_[1][0], expected({9, 10, expected({9, 10})}));
}

TEST_F(FakeBackendTest, RefusesASourceThatSampledNothing) {
  make({});
  ASSERT_TRUE(run(StagedStep(1, 0, {row_of({8}, 0, 0, {3})}, 16, 8)).ok());
  const StagedStep next(2, 1, {row_of({0}, 1, 1, {3}, 0)}, 16, 8);
  EXPECT_THAT(run(next).message(), HasSubstr("token_source[0]"));
  const StagedStep later(4, 1, {row_of({0}, 1, 1, {3}, 0)}, 16, 8);
  EXPECT_FALSE(run(later).ok());
}

TEST_F(FakeBackendTest, BatchSizesAndInjectedFaults) {
  FakeOptions options;
  options.batch_sizes = {1, 4};
  options.fail_step = [](uint64_t id) { return id == 2; };
  options.non_finite = [](std::span<const int32_t> tokens) { return tokens.back() == 13; };
  make(options);
  const RowSpec good = row_of({8}, 0, 1, {3});
  const RowSpec other = row_of({8}, 0, 1, {4});
  EXPECT_THAT(run(StagedStep(1, 0, {good, other}, 16, 8)).message(), HasSubstr("2 rows"));
  EXPECT_EQ(run(StagedStep(2, 0, {good}, 16, 8)).code(), StatusCode::kInternal);
  ASSERT_TRUE(run(StagedStep(3, 0, {row_of({13}, 0, 1, {3})}, 16, 8)).ok());
  EXPECT_EQ(status_[0], static_cast<int32_t>(step::RowStatus::kNonFinite));
}

TEST_F(FakeBackendTest, KvLimit) {
  FakeOptions options;
  options.kv_limit_bytes = 8 * 16 * 64;
  make(options);
  step::KvGeometry kv{.num_layers = 1, .num_kv_heads = 1, .head_dim = 16, .block_size = 16, .num_blocks = 9};
  EXPECT_EQ(backend_->allocate_kv(kv).code(), StatusCode::kResourceExhausted);
}

FakeChoice drawn(float temperature, uint64_t seed) {
  FakeChoice choice;
  choice.temperature = temperature;
  choice.seed = seed;
  return choice;
}

TEST(FakeModel, ChoiceFollowsItsParameters) {
  const uint64_t digest = fake_digest(std::vector<int32_t>{1, 2, 3});
  const int32_t greedy = fake_next_token(digest, {}, 1000);
  EXPECT_EQ(fake_next_token(digest, drawn(0.0F, 9), 1000), greedy);
  EXPECT_NE(fake_next_token(digest, drawn(1.0F, 9), 1000), fake_next_token(digest, drawn(1.0F, 10), 1000));
  const std::vector<int32_t> ids = {4, 5};
  const std::vector<float> values = {1.0F, 100.0F};
  FakeChoice forced;
  forced.bias_ids = ids;
  forced.bias_values = values;
  EXPECT_EQ(fake_next_token(digest, forced, 1000), 5);
  std::vector<uint32_t> mask(32, ~0U);
  mask[static_cast<size_t>(greedy / 32)] &= ~(1U << (greedy % 32));
  FakeChoice masked;
  masked.mask = mask;
  EXPECT_EQ(fake_next_token(digest, masked, 1000), (greedy + 1) % 1000);
  EXPECT_NE(fake_digest(std::vector<int32_t>{1, 2}), fake_digest(std::vector<int32_t>{2, 1}));
  EXPECT_LT(fake_logprob(digest, 7), 0.0F);
}

}  // namespace
}  // namespace lockstep::backend
