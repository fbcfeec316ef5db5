// SPDX-License-Identifier: Apache-2.0
// Runner, scheduler and events together, on the fake backend and without a thread.
#include "engine/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "backend/fake/fake_backend.h"
#include "engine/kv_sizing.h"
#include "engine/options.h"
#include "engine/testing.h"
#include "sampling/sampling_batch.h"

namespace lockstep::engine {
namespace {

using request::Event;
using request::FinishReason;
using request::Request;
using testing::HasSubstr;

constexpr int64_t kVocab = 1000;

Request prompt_of(std::vector<int32_t> ids, int64_t max_tokens) {
  Request request;
  request.prompt_token_ids = std::move(ids);
  request.sampling.max_tokens = max_tokens;
  return request;
}

std::vector<int32_t> range(int64_t count, int32_t first) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

class CoreTest : public testing::TestWithParam<bool> {
 protected:
  CoreTest() {
    options_.max_num_seqs = 4;
    options_.max_num_batched_tokens = 64;
    options_.long_prefill_token_threshold = 32;
    options_.max_model_len = 512;
    options_.num_kv_blocks = 128;
    options_.eos_token_ids = {3, 64};
    options_.async_scheduling = GetParam();
  }

  void start() {
    backend_ = backend::make_fake_backend(fake_);
    backend::StepShape shape;
    shape.max_num_seqs = options_.max_num_seqs;
    shape.max_num_batched_tokens = options_.max_num_batched_tokens;
    shape.max_model_len = options_.max_model_len;
    shape.block_size = options_.block_size;
    ASSERT_TRUE(backend_->warm_up(shape).ok());
    ASSERT_TRUE(allocate_kv_pool(*backend_, options_, SystemMemoryProbe()));
    auto core = Core::create(*backend_, options_, [this] { return now_; });
    ASSERT_TRUE(core) << core.error().message();
    core_ = std::move(*core);
  }

  void TearDown() override {
    if (!core_) return;
    EXPECT_TRUE(core_->check().ok()) << core_->check().to_string();
    if (core_->busy()) return;
    const EngineStats stats = core_->stats();
    EXPECT_EQ(stats.num_free_blocks, stats.num_blocks);
  }

  uint64_t add(Request request) {
    const uint64_t id = ++last_id_;
    requests_[id] = request;
    sampling::normalise(request.sampling);
    core_->add(id, std::move(request), /*seed=*/id * 7, [this, id](Event event) {
      EXPECT_EQ(event.request_id, id);
      EXPECT_EQ(reasons_.count(id), 0U) << "an event after the last";
      auto& stream = streams_[id];
      stream.insert(stream.end(), event.new_token_ids.begin(), event.new_token_ids.end());
      if (event.finish_reason != FinishReason::kNone) reasons_[id] = event.finish_reason;
      if (!event.error.ok()) errors_[id] = event.error;
      events_[id].push_back(std::move(event));
    });
    return id;
  }

  void run() {
    for (int i = 0; i < 5000 && core_->busy(); ++i) core_->step();
    EXPECT_FALSE(core_->busy());
  }

  std::vector<int32_t> solo(uint64_t id) { return solo_stream(requests_[id], id * 7, kVocab, options_.eos_token_ids); }

  backend::FakeOptions fake_;
  EngineOptions options_;
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<Core> core_;
  double now_ = 0;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Request> requests_;
  std::map<uint64_t, std::vector<int32_t>> streams_;
  std::map<uint64_t, FinishReason> reasons_;
  std::map<uint64_t, Status> errors_;
  std::map<uint64_t, std::vector<Event>> events_;
};

INSTANTIATE_TEST_SUITE_P(Async, CoreTest, testing::Bool());

TEST_P(CoreTest, ManyRequestsEachGetTheirOwnStream) {
  start();
  std::mt19937 random(5);
  for (int i = 0; i < 40; ++i) {
    std::vector<int32_t> ids(1 + random() % 150);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % kVocab);
    Request request = prompt_of(std::move(ids), 1 + static_cast<int64_t>(random() % 60));
    if (i % 3 == 0) request.sampling.temperature = 0.7;
    if (i % 4 == 0) request.sampling.frequency_penalty = 0.5;
    if (i % 5 == 0) request.sampling.logit_bias = {{9, 1.0F}, {4, -2.0F}};
    if (i % 6 == 0) request.sampling.min_tokens = request.sampling.max_tokens / 2;
    if (i % 7 == 0) request.sampling.stop_token_ids = {static_cast<int32_t>(random() % kVocab), 500};
    add(std::move(request));
    if (i % 2 == 0) core_->step();
  }
  run();
  for (uint64_t id = 1; id <= 40; ++id) EXPECT_EQ(streams_[id], solo(id)) << id;
}

TEST_P(CoreTest, FinishReasonsAndForcedTokens) {
  start();
  Request stops = prompt_of({1, 2}, 5);
  stops.sampling.logit_bias = {{64, 100.0F}};
  Request ignores = stops;
  ignores.sampling.ignore_eos = true;
  const uint64_t a = add(stops);
  const uint64_t b = add(ignores);
  run();
  EXPECT_EQ(reasons_[a], FinishReason::kStop);
  EXPECT_EQ(streams_[a], std::vector<int32_t>({64}));
  EXPECT_EQ(reasons_[b], FinishReason::kLength);
  EXPECT_EQ(streams_[b], std::vector<int32_t>(5, 64));
}

TEST_P(CoreTest, LogprobsAreThoseOfThePosition) {
  start();
  Request request = prompt_of(range(40, 10), 6);
  request.sampling.logprobs = 3;
  request.sampling.ignore_eos = true;
  Request chosen = prompt_of(range(10, 10), 6);
  chosen.sampling.logprobs = 0;
  Request most = prompt_of(range(70, 300), 6);
  most.sampling.logprobs = 20;
  add(chosen);
  add(most);
  const uint64_t id = add(request);
  run();
  std::vector<int32_t> tokens = request.prompt_token_ids;
  ASSERT_EQ(events_[id].size(), 6U);
  for (const Event& event : events_[id]) {
    const uint64_t digest = backend::fake_digest(tokens);
    ASSERT_EQ(event.logprobs.size(), 1U);
    EXPECT_EQ(event.logprobs[0].logprob, backend::fake_logprob(digest, event.new_token_ids[0]));
    ASSERT_EQ(event.logprobs[0].top.size(), 3U);
    for (int64_t k = 0; k < 3; ++k) {
      EXPECT_EQ(event.logprobs[0].top[static_cast<size_t>(k)].first, backend::fake_top_id(digest, k, kVocab));
      EXPECT_EQ(event.logprobs[0].top[static_cast<size_t>(k)].second, backend::fake_top_logprob(digest, k));
    }
    tokens.push_back(event.new_token_ids[0]);
  }
  for (const Event& event : events_[1]) EXPECT_TRUE(event.logprobs.at(0).top.empty());
  for (const Event& event : events_[2]) EXPECT_EQ(event.logprobs.at(0).top.size(), 20U);
}

TEST_P(CoreTest, PromptLogprobsComeOnceWithTheFirstEvent) {
  start();
  Request request = prompt_of(range(100, 10), 3);
  request.sampling.prompt_logprobs = 2;
  Request only = prompt_of(range(50, 400), 0);
  only.sampling.prompt_logprobs = 5;
  add(prompt_of(range(30, 1), 20));
  const uint64_t a = add(request);
  const uint64_t b = add(only);
  run();
  for (const auto& [id, top] : std::map<uint64_t, size_t>{{a, 2}, {b, 5}}) {
    const auto& prompt = requests_[id].prompt_token_ids;
    const auto& scored = events_[id].front().prompt_logprobs;
    ASSERT_EQ(scored.size(), prompt.size());
    EXPECT_TRUE(std::isnan(scored[0].logprob));
    EXPECT_EQ(scored[0].rank, 0);
    for (size_t i = 1; i < prompt.size(); ++i) {
      const uint64_t digest = backend::fake_digest(std::span(prompt).first(i));
      EXPECT_EQ(scored[i].logprob, backend::fake_logprob(digest, prompt[i]));
      EXPECT_EQ(scored[i].rank, backend::fake_rank(digest, prompt[i], kVocab));
      ASSERT_EQ(scored[i].top.size(), top);
      EXPECT_EQ(scored[i].top[1].first, backend::fake_top_id(digest, 1, kVocab));
    }
  }
  EXPECT_EQ(events_[a].size(), 3U);
  EXPECT_TRUE(events_[a][1].prompt_logprobs.empty());
  EXPECT_EQ(reasons_[b], FinishReason::kLength);
  EXPECT_TRUE(streams_[b].empty());
}

TEST_P(CoreTest, ABackendOfOneOrSixteenRowsGetsCallsItAccepts) {
  fake_.batch_sizes = {1, 3};
  start();
  for (int32_t i = 0; i < 9; ++i) {
    Request request = prompt_of(range(5 + 11 * i, 10 * i), 12);
    request.sampling.logprobs = i % 3;
    if (i % 2 == 0) request.sampling.presence_penalty = 1.0;
    if (i == 4) request.sampling.prompt_logprobs = 1;
    add(std::move(request));
  }
  run();
  for (uint64_t id = 1; id <= 9; ++id) {
    EXPECT_EQ(streams_[id], solo(id)) << id;
    std::vector<int32_t> tokens = requests_[id].prompt_token_ids;
    for (const Event& event : events_[id]) {
      const uint64_t digest = backend::fake_digest(tokens);
      EXPECT_EQ(event.logprobs.at(0).logprob, backend::fake_logprob(digest, event.new_token_ids[0]));
      tokens.push_back(event.new_token_ids[0]);
    }
  }
}

TEST_P(CoreTest, ABackendThatCannotBeServedIsRefusedAtStart) {
  fake_.batch_sizes = {2, 4};
  backend_ = backend::make_fake_backend(fake_);
  const auto core = Core::create(*backend_, options_, [] { return 0.0; });
  ASSERT_FALSE(core);
  EXPECT_THAT(core.error().message(), HasSubstr("4, 2 rows"));
}

TEST_P(CoreTest, ANonFiniteRowEndsAloneWithAnError) {
  fake_.non_finite = [](std::span<const int32_t> tokens) { return tokens[0] == 77 && tokens.size() >= 12; };
  start();
  const uint64_t good = add(prompt_of(range(10, 5), 20));
  const uint64_t bad = add(prompt_of(range(10, 77), 20));
  const uint64_t other = add(prompt_of(range(10, 200), 20));
  run();
  EXPECT_EQ(reasons_[bad], FinishReason::kError);
  EXPECT_EQ(streams_[bad].size(), 2U);
  EXPECT_THAT(errors_[bad].message(), HasSubstr("not finite"));
  EXPECT_EQ(streams_[good], solo(good));
  EXPECT_EQ(streams_[other], solo(other));
}

TEST_P(CoreTest, AFailedStepEndsItsRequestsAndTheEngineGoesOn) {
  fake_.fail_step = [](uint64_t id) { return id == 3; };
  start();
  const uint64_t a = add(prompt_of(range(10, 5), 20));
  const uint64_t b = add(prompt_of(range(10, 50), 20));
  run();
  EXPECT_EQ(reasons_[a], FinishReason::kError);
  EXPECT_EQ(reasons_[b], FinishReason::kError);
  EXPECT_THAT(errors_[a].message(), HasSubstr("failed in step 3"));
  const uint64_t c = add(prompt_of(range(10, 5), 20));
  run();
  EXPECT_EQ(streams_[c], solo(c));
}

TEST_P(CoreTest, ARefusedRowIsFoundAndTheOthersGoOn) {
  fake_.refuse = [](const step::StepArgs& args) -> Status {
    for (int64_t row = 0; row < args.seq_lens.extent(0); ++row) {
      if (args.seq_lens(row) == 33) return invalid_argument("seq_lens[{}] is 33, at most 32", row);
    }
    return {};
  };
  start();
  const uint64_t a = add(prompt_of(range(5, 5), 20));
  const uint64_t bad = add(prompt_of(range(30, 50), 20));
  const uint64_t b = add(prompt_of(range(7, 90), 20));
  run();
  EXPECT_EQ(reasons_[bad], FinishReason::kError);
  EXPECT_THAT(errors_[bad].message(), HasSubstr("is 33"));
  EXPECT_EQ(streams_[bad].size(), GetParam() ? 2U : 3U);  // ahead, the third token is still unknown then
  EXPECT_EQ(streams_[a], solo(a));
  EXPECT_EQ(streams_[b], solo(b));
}

TEST_P(CoreTest, AMaskThatForbidsEverythingEndsThatRequestOnly) {
  start();
  Request all = prompt_of(range(5, 5), 4);
  all.sampling.min_tokens = 2;
  all.sampling.stop_token_ids = range(kVocab, 0);
  const uint64_t bad = add(all);
  const uint64_t good = add(prompt_of(range(7, 90), 20));
  run();
  EXPECT_EQ(reasons_[bad], FinishReason::kError);
  EXPECT_THAT(errors_[bad].message(), HasSubstr("allows no id"));
  EXPECT_EQ(streams_[good], solo(good));
}

TEST_P(CoreTest, SmallPoolPreemptsAndNoStreamShowsIt) {
  options_.num_kv_blocks = 12;
  start();
  for (int32_t i = 0; i < 12; ++i) {
    Request request = prompt_of(range(20 + i, 40 * i), 60);
    request.sampling.ignore_eos = true;
    if (i % 3 == 1) request.sampling.repetition_penalty = 1.3;
    if (i % 3 == 2) request.sampling.prompt_logprobs = 0;
    add(std::move(request));
  }
  run();
  for (uint64_t id = 1; id <= 12; ++id) EXPECT_EQ(streams_[id], solo(id)) << id;
  EXPECT_GT(core_->stats().num_preemptions, 0);
}

TEST_P(CoreTest, CachedPrefixesGiveTheSameStreams) {
  start();
  const auto shared = range(64, 100);
  for (int round = 0; round < 3; ++round) {
    for (int32_t i = 0; i < 6; ++i) {
      auto ids = shared;
      for (int32_t j = 0; j <= i * 5; ++j) ids.push_back((i * 31 + j) % 1000);
      add(prompt_of(std::move(ids), 20));
    }
    run();
  }
  for (uint64_t id = 1; id <= 18; ++id) EXPECT_EQ(streams_[id], solo(id)) << id;
  EXPECT_GE(events_[7].front().num_cached_tokens, 64);
  core_->flush_prefix_cache();
  const uint64_t cold = add(requests_[1]);
  run();
  EXPECT_EQ(events_[cold].front().num_cached_tokens, 0);
  EXPECT_EQ(streams_[cold], streams_[1]);
}

TEST_P(CoreTest, CancelDeadlineAndShutDown) {
  start();
  Request timed = prompt_of(range(10, 5), 400);
  timed.timeout_s = 5.0;
  timed.sampling.ignore_eos = true;
  const uint64_t deadline = add(timed);
  timed.timeout_s.reset();
  const uint64_t cancelled = add(timed);
  const uint64_t last = add(timed);
  for (int i = 0; i < 5; ++i) core_->step();
  core_->finish(cancelled, FinishReason::kCancelled);
  now_ = 5.0;
  core_->step();
  EXPECT_EQ(reasons_[deadline], FinishReason::kDeadline);
  EXPECT_EQ(reasons_[cancelled], FinishReason::kCancelled);
  EXPECT_EQ(core_->stats().num_running, 1);
  EXPECT_EQ(events_[last].front().queue_s, 0.0);
  now_ = 7.0;
  const uint64_t late = add(requests_[last]);
  now_ = 9.5;
  while (events_[late].empty()) core_->step();
  EXPECT_EQ(events_[late].front().queue_s, 2.5);
  core_->shut_down();
  EXPECT_EQ(reasons_[last], FinishReason::kCancelled);
  EXPECT_FALSE(core_->busy());
}

TEST_P(CoreTest, StepReportsAddUp) {
  std::vector<StepReport> reports;
  options_.on_step = [&](const StepReport& report) { reports.push_back(report); };
  start();
  add(prompt_of(range(40, 5), 3));
  run();
  ASSERT_EQ(reports.size(), 4U);
  EXPECT_EQ(reports[0].tokens, 32);
  EXPECT_EQ(reports[0].decode_rows, 0);
  EXPECT_EQ(reports[3].decode_rows, 1);
  EXPECT_EQ(core_->stats().num_steps, 4U);
  EXPECT_EQ(core_->stats().prompt_tokens, 40);
  EXPECT_EQ(core_->stats().generation_tokens, 3);
  const StepTokens steps = core_->stats().step_tokens;  // 32, 8, 1, 1
  EXPECT_EQ(steps.sum, 42);
  EXPECT_EQ(steps.counts[0], 2U);
  EXPECT_EQ(steps.counts[1], 1U);
  EXPECT_EQ(steps.counts[3], 1U);
}

TEST(StepTokens, BoundsBelongToTheirClass) {
  StepTokens steps;
  for (const int64_t tokens : {2, 8, 9, 16384, 16385}) steps.add(tokens);
  EXPECT_EQ(steps.counts[1], 2U);
  EXPECT_EQ(steps.counts[2], 1U);
  EXPECT_EQ(steps.counts[12], 1U);
  EXPECT_EQ(steps.counts[13], 1U);
}

}  // namespace
}  // namespace lockstep::engine
