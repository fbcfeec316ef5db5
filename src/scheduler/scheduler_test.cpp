// SPDX-License-Identifier: Apache-2.0
#include "scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <numeric>

namespace lockstep::scheduler {
namespace {

using request::FinishReason;
using testing::HasSubstr;

// The "model": the next token is a function of the length, so streams are easy to foretell.
int32_t next_token(int64_t position) { return static_cast<int32_t>(100 + position % 50); }

SchedulerOptions small() {
  SchedulerOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  options.long_prefill_token_threshold = 32;
  options.max_model_len = 256;
  options.block_size = 16;
  options.num_blocks = 64;
  options.eos_token_ids = {7};
  return options;
}

request::Request prompt_of(int64_t tokens, int64_t max_tokens, int32_t first = 1000) {
  request::Request request;
  request.prompt_token_ids.resize(static_cast<size_t>(tokens));
  std::iota(request.prompt_token_ids.begin(), request.prompt_token_ids.end(), first);
  request.sampling.max_tokens = max_tokens;
  return request;
}

// Runs steps and gathers what comes out; up to `depth` steps in flight.
class Driver {
 public:
  explicit Driver(SchedulerOptions options, size_t depth = 1) : scheduler(std::move(options)), depth_(depth) {}
  ~Driver() {
    EXPECT_TRUE(scheduler.check().ok()) << scheduler.check().to_string();
    EXPECT_TRUE(scheduler.has_requests() || scheduler.stats().kv.used == 0)
        << scheduler.stats().kv.used << " in flight " << in_flight_.size();
  }

  void add(uint64_t id, request::Request request, double now = 0) { scheduler.add(id, std::move(request), id, now); }

  const StepPlan& step(double now = 0) {
    const StepPlan& plan = scheduler.schedule(now);
    if (!plan.empty()) in_flight_.push_back(&plan);
    while (in_flight_.size() >= depth_ || (plan.empty() && !in_flight_.empty())) complete_oldest();
    take_outcomes();
    EXPECT_TRUE(scheduler.check().ok()) << scheduler.check().to_string();
    return plan;
  }

  void complete_oldest() {
    const StepPlan& plan = *in_flight_.front();
    std::vector<int32_t> ids(plan.rows.size());
    StepResult result;
    for (size_t i = 0; i < plan.rows.size(); ++i) {
      const PlanRow& row = plan.rows[i];
      ids[i] = next_token(row.first_position + row.num_tokens);
      result.rows.push_back({.finite = true, .ids = std::span(&ids[i], static_cast<size_t>(row.num_samples))});
    }
    scheduler.update(plan, result);
    in_flight_.pop_front();
  }

  void take_outcomes() {
    for (const Outcome& outcome : scheduler.outcomes()) {
      auto& stream = streams[outcome.request_id];
      EXPECT_FALSE(reasons.contains(outcome.request_id));
      stream.insert(stream.end(), outcome.new_tokens.begin(), outcome.new_tokens.begin() + outcome.num_new_tokens);
      cached[outcome.request_id] = outcome.num_cached_tokens;
      if (outcome.finish_reason != FinishReason::kNone) reasons[outcome.request_id] = outcome.finish_reason;
    }
    scheduler.clear_outcomes();
  }

  void run() {
    for (int i = 0; i < 2000 && scheduler.has_requests(); ++i) step();
    EXPECT_FALSE(scheduler.has_requests());
  }

  void expect_whole(uint64_t id, int64_t prompt, int64_t max_tokens) {
    EXPECT_EQ(reasons[id], FinishReason::kLength);
    ASSERT_EQ(streams[id].size(), static_cast<size_t>(max_tokens));
    for (int64_t i = 0; i < max_tokens; ++i) EXPECT_EQ(streams[id][static_cast<size_t>(i)], next_token(prompt + i));
  }

  Scheduler scheduler;
  std::map<uint64_t, std::vector<int32_t>> streams;
  std::map<uint64_t, FinishReason> reasons;
  std::map<uint64_t, int64_t> cached;

 private:
  size_t depth_;
  std::deque<const StepPlan*> in_flight_;
};

TEST(Scheduler, OneRequestIsComputedInChunksThenTokenByToken) {
  Driver driver(small());
  driver.add(1, prompt_of(70, 3));
  const StepPlan* plan = &driver.step();
  ASSERT_EQ(plan->rows.size(), 1U);
  EXPECT_EQ(plan->rows[0].num_tokens, 32);
  EXPECT_EQ(plan->rows[0].num_samples, 0);
  EXPECT_EQ(plan->num_decode_rows, 0);
  plan = &driver.step();
  EXPECT_EQ(plan->rows[0].first_position, 32);
  plan = &driver.step();
  EXPECT_EQ(plan->rows[0].first_position, 64);
  EXPECT_EQ(plan->rows[0].num_tokens, 6);
  EXPECT_EQ(plan->rows[0].num_samples, 1);
  plan = &driver.step();
  EXPECT_EQ(plan->num_decode_rows, 1);
  EXPECT_EQ(plan->rows[0].num_tokens, 1);
  EXPECT_EQ(plan->rows[0].tokens.size(), 71U);
  driver.run();
  driver.expect_whole(1, 70, 3);
}

TEST(Scheduler, DecodeRowsComeFirstAndTheBudgetHolds) {
  Driver driver(small());
  driver.add(1, prompt_of(10, 20));
  driver.step();
  driver.add(2, prompt_of(100, 2));
  driver.add(3, prompt_of(100, 2));
  const StepPlan& plan = driver.step();
  ASSERT_EQ(plan.rows.size(), 3U);
  EXPECT_EQ(plan.num_decode_rows, 1);
  EXPECT_EQ(plan.rows[0].request_id, 1U);
  EXPECT_EQ(plan.rows[1].num_tokens, 32);
  EXPECT_EQ(plan.rows[2].num_tokens, 16);
  EXPECT_LE(plan.num_tokens, 64);
  driver.run();
  driver.expect_whole(1, 10, 20);
  driver.expect_whole(2, 100, 2);
  driver.expect_whole(3, 100, 2);
}

TEST(Scheduler, WithoutChunksAPromptIsComputedInOneStep) {
  SchedulerOptions options = small();
  options.enable_chunked_prefill = false;
  options.max_num_batched_tokens = 128;
  Driver driver(options);
  driver.add(1, prompt_of(100, 2));
  driver.add(2, prompt_of(100, 2));
  EXPECT_EQ(driver.step().rows.at(0).num_tokens, 100);
  EXPECT_EQ(driver.step().rows.at(1).num_tokens, 100);
  driver.run();
}

TEST(Scheduler, EndTokensStopUnlessIgnored) {
  Driver driver(small());
  request::Request stops = prompt_of(3, 10);
  stops.sampling.stop_token_ids = {next_token(5)};
  request::Request ignores = prompt_of(3, 10);
  ignores.sampling.ignore_eos = true;
  ignores.sampling.stop_token_ids = {7};
  driver.add(1, stops);
  driver.add(2, ignores);
  driver.run();
  EXPECT_EQ(driver.reasons[1], FinishReason::kStop);
  EXPECT_EQ(driver.streams[1].size(), 3U);
  driver.expect_whole(2, 3, 10);
}

TEST(Scheduler, NoTokensAskedForEndsWithThePrompt) {
  Driver driver(small());
  request::Request scored = prompt_of(40, 0);
  scored.sampling.prompt_logprobs = 1;
  driver.add(1, scored);
  driver.run();
  EXPECT_EQ(driver.reasons[1], FinishReason::kLength);
  EXPECT_TRUE(driver.streams[1].empty());
}

TEST(Scheduler, WhatCanNeverFitIsRefused) {
  SchedulerOptions options = small();
  options.num_blocks = 8;
  EXPECT_TRUE(Scheduler::check_fits(prompt_of(100, 29), options).ok());
  EXPECT_THAT(Scheduler::check_fits(prompt_of(100, 30), options).message(), HasSubstr("KV pool of 128 tokens"));
  EXPECT_THAT(Scheduler::check_fits(prompt_of(130, 1), options).message(), HasSubstr("KV pool"));
  EXPECT_THAT(Scheduler::check_fits(prompt_of(257, 1), options).message(), HasSubstr("context of 256"));
  EXPECT_THAT(Scheduler::check_fits(prompt_of(10, INT64_MAX), options).message(), HasSubstr("context of 256"));
  EXPECT_THAT(Scheduler::check_fits(prompt_of(0, 1), options).message(), HasSubstr("empty"));
}

TEST(Scheduler, PrecomputedTokensAreNotComputedAgain) {
  Driver driver(small());
  request::Request request = prompt_of(50, 20);
  request.num_precomputed_tokens = 49;
  driver.add(1, request);
  const StepPlan& plan = driver.step();
  ASSERT_EQ(plan.rows.size(), 1U);
  EXPECT_EQ(plan.rows[0].first_position, 49);
  EXPECT_EQ(plan.rows[0].num_tokens, 1);
  EXPECT_EQ(plan.rows[0].num_samples, 1);
  EXPECT_EQ(plan.rows[0].blocks.size(), 4U);
  driver.run();
  driver.expect_whole(1, 50, 20);
}

TEST(Scheduler, PrecomputedTokensAreChecked) {
  const SchedulerOptions options = small();
  request::Request request = prompt_of(50, 20);
  request.num_precomputed_tokens = 49;
  EXPECT_TRUE(Scheduler::check_fits(request, options).ok());
  request.num_precomputed_tokens = 50;
  EXPECT_THAT(Scheduler::check_fits(request, options).message(), HasSubstr("is 50, must be in [0, 50)"));
  request.num_precomputed_tokens = -1;
  EXPECT_THAT(Scheduler::check_fits(request, options).message(), HasSubstr("is -1, must be in [0, 50)"));
  request.num_precomputed_tokens = 1;
  SchedulerOptions caching = options;
  caching.enable_prefix_caching = true;
  EXPECT_THAT(Scheduler::check_fits(request, caching).message(), HasSubstr("must be 0 with prefix caching"));
}

TEST(Scheduler, CancelGivesTheBlocksBack) {
  Driver driver(small());
  driver.add(1, prompt_of(50, 20));
  driver.add(2, prompt_of(50, 20));
  driver.step();
  driver.scheduler.finish(1, FinishReason::kCancelled);
  driver.scheduler.finish(99, FinishReason::kCancelled);
  const StepPlan& plan = driver.step();
  ASSERT_EQ(plan.rows.size(), 1U);
  EXPECT_EQ(plan.rows[0].request_id, 2U);
  EXPECT_EQ(driver.reasons[1], FinishReason::kCancelled);
  driver.run();
  driver.expect_whole(2, 50, 20);
}

TEST(Scheduler, DeadlinesEndRunningAndWaitingRequests) {
  SchedulerOptions options = small();
  options.max_num_seqs = 1;
  Driver driver(options);
  request::Request timed = prompt_of(5, 100);
  timed.timeout_s = 2.0;
  driver.add(1, timed, 10.0);
  driver.add(2, timed, 10.5);
  driver.step(11.0);
  driver.step(11.9);
  EXPECT_TRUE(driver.reasons.empty());
  driver.step(12.0);
  EXPECT_EQ(driver.reasons[1], FinishReason::kDeadline);
  driver.step(12.6);
  EXPECT_EQ(driver.reasons[2], FinishReason::kDeadline);
}

TEST(Scheduler, PreemptionKeepsEveryStreamWhole) {  // case 29
  for (size_t depth : {1U, 2U}) {
    for (bool caching : {false, true}) {
      SchedulerOptions options = small();
      options.num_blocks = 7;
      options.enable_prefix_caching = caching;
      Driver driver(options, depth);
      driver.add(1, prompt_of(34, 35));
      driver.add(2, prompt_of(34, 35, 5000));
      driver.run();
      driver.expect_whole(1, 34, 35);
      driver.expect_whole(2, 34, 35);
      EXPECT_EQ(driver.scheduler.stats().num_preemptions, 1);
    }
  }
}

TEST(Scheduler, PriorityDecidesWhoRunsAndWhoYields) {
  SchedulerOptions options = small();
  options.policy = Policy::kPriority;
  options.max_num_seqs = 1;
  Driver driver(options);
  request::Request low = prompt_of(5, 2);
  low.priority = 5;
  request::Request high = prompt_of(5, 2);
  high.priority = -5;
  driver.add(1, low);
  driver.add(2, high);
  EXPECT_EQ(driver.step().rows.at(0).request_id, 2U);
  driver.run();
}

TEST(Scheduler, AHigherPriorityWaitsForASlotAndIsNextThen) {
  SchedulerOptions options = small();
  options.policy = Policy::kPriority;
  options.max_num_seqs = 1;
  Driver driver(options);
  for (const auto& [id, priority] : {std::pair<uint64_t, int>{1, 5}, {2, 4}, {3, -5}}) {
    request::Request request = prompt_of(5, 4);
    request.priority = priority;
    driver.add(id, request);
    if (id == 1) driver.step();
  }
  std::vector<uint64_t> order;
  while (driver.scheduler.has_requests()) {
    const StepPlan& plan = driver.step();
    for (const PlanRow& row : plan.rows) {
      if (order.empty() || order.back() != row.request_id) order.push_back(row.request_id);
    }
  }
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 3, 2}));
  EXPECT_EQ(driver.scheduler.stats().num_preemptions, 0);
}

TEST(Scheduler, TheLowestPriorityYieldsWhenBlocksRunOut) {
  SchedulerOptions options = small();
  options.policy = Policy::kPriority;
  options.num_blocks = 7;
  Driver driver(options);
  request::Request low = prompt_of(34, 35);
  low.priority = 1;
  request::Request high = prompt_of(34, 35, 5000);
  high.priority = 0;
  driver.add(1, low);  // earlier, but yields
  driver.add(2, high);
  int64_t first_preemption = -1;
  for (int64_t i = 0; i < 200 && driver.scheduler.has_requests(); ++i) {
    const StepPlan& plan = driver.step();
    if (first_preemption < 0 && driver.scheduler.stats().num_preemptions > 0) {
      first_preemption = i;
      ASSERT_EQ(plan.rows.size(), 1U);
      EXPECT_EQ(plan.rows[0].request_id, 2U);
    }
  }
  EXPECT_GE(first_preemption, 0);
  driver.expect_whole(1, 34, 35);
  driver.expect_whole(2, 34, 35);
}

TEST(Scheduler, PreemptionDoesNotThrash) {
  SchedulerOptions options = small();
  options.max_num_seqs = 16;
  options.num_blocks = 24;
  Driver driver(options);
  for (uint64_t id = 1; id <= 30; ++id) driver.add(id, prompt_of(20, 100, static_cast<int32_t>(1000 * id)));
  driver.run();
  for (uint64_t id = 1; id <= 30; ++id) driver.expect_whole(id, 20, 100);
  EXPECT_GT(driver.scheduler.stats().num_preemptions, 0);
  EXPECT_LE(driver.scheduler.stats().num_preemptions, 3 * 30);
}

TEST(Scheduler, TheStepAheadNamesTheRowItsTokenComesFrom) {
  Driver driver(small(), 2);
  driver.add(1, prompt_of(40, 6));
  driver.add(2, prompt_of(3, 6));
  driver.step();                           // chunk of 1, all of 2
  const StepPlan& second = driver.step();  // planned before the first is known
  ASSERT_EQ(second.rows.size(), 2U);
  EXPECT_EQ(second.rows[0].request_id, 2U);
  EXPECT_EQ(second.rows[0].token_source, 1);
  EXPECT_EQ(second.rows[1].token_source, -1);
  const StepPlan& third = driver.step();
  EXPECT_EQ(third.rows[0].request_id, 1U);
  EXPECT_EQ(third.rows[0].token_source, 1);
  EXPECT_EQ(third.rows[1].token_source, 0);
  driver.run();
  driver.expect_whole(1, 40, 6);
  driver.expect_whole(2, 3, 6);
}

TEST(Scheduler, PenaltiesDoNotRunAhead) {
  Driver driver(small(), 2);
  request::Request counted = prompt_of(3, 4);
  counted.sampling.presence_penalty = 1.0;
  driver.add(1, counted);
  driver.step();
  EXPECT_TRUE(driver.scheduler.wants_results());
  EXPECT_TRUE(driver.step().empty());
  driver.run();
  driver.expect_whole(1, 3, 4);
}

TEST(Scheduler, BlocksOfAStepInFlightStayUntilItEnds) {
  SchedulerOptions options = small();
  options.num_blocks = 3;
  Scheduler scheduler(options);
  scheduler.add(1, prompt_of(40, 4), 1, 0);
  const StepPlan& plan = scheduler.schedule(0);
  scheduler.finish(1, FinishReason::kCancelled);
  EXPECT_EQ(scheduler.stats().kv.used, 3);
  scheduler.add(2, prompt_of(40, 4), 1, 0);
  EXPECT_TRUE(scheduler.schedule(0).empty());
  StepResult result;
  result.rows.resize(1);
  scheduler.update(plan, result);
  EXPECT_EQ(scheduler.stats().kv.used, 0);
  EXPECT_EQ(scheduler.schedule(0).rows.size(), 1U);
  EXPECT_TRUE(scheduler.check().ok());
}

TEST(Scheduler, ASharedPrefixIsComputedOnce) {
  SchedulerOptions options = small();
  options.enable_prefix_caching = true;
  options.long_prefill_token_threshold = 64;
  Driver driver(options);
  driver.add(1, prompt_of(40, 2));
  driver.add(2, prompt_of(40, 2));
  driver.add(3, prompt_of(40, 2));
  EXPECT_EQ(driver.step().rows.size(), 1U);
  const StepPlan& plan = driver.step();
  ASSERT_EQ(plan.rows.size(), 3U);
  EXPECT_EQ(plan.rows[1].first_position, 32);
  EXPECT_EQ(plan.rows[2].first_position, 32);
  driver.run();
  for (uint64_t id : {1U, 2U, 3U}) driver.expect_whole(id, 40, 2);
  EXPECT_EQ(driver.cached[1], 0);
  EXPECT_EQ(driver.cached[2], 32);
  EXPECT_EQ(driver.scheduler.stats().prefix_hits, 64);
  EXPECT_EQ(driver.scheduler.stats().prefix_queries, 120);
}

TEST(Scheduler, AWholePromptInTheCacheLeavesATokenToCompute) {  // case 27
  for (int64_t length : {31, 32, 33}) {
    SchedulerOptions options = small();
    options.enable_prefix_caching = true;
    Driver driver(options);
    for (uint64_t id = 1; id <= 3; ++id) {
      driver.add(id, prompt_of(length, 8));
      driver.run();
      driver.expect_whole(id, length, 8);
    }
    const int64_t hit = (length - 1) / 16 * 16;
    EXPECT_EQ(driver.cached[2], hit);
    EXPECT_EQ(driver.cached[3], hit);
  }
}

TEST(Scheduler, GeneratedTokensAreReusedButNotTheUnwrittenLast) {
  SchedulerOptions options = small();
  options.enable_prefix_caching = true;
  Driver driver(options);
  driver.add(1, prompt_of(20, 12));  // 32 tokens, K/V of 31
  driver.run();
  request::Request again = prompt_of(20, 2);
  for (int32_t id : driver.streams[1]) again.prompt_token_ids.push_back(id);
  again.prompt_token_ids.push_back(1);
  driver.add(2, again);
  driver.run();
  EXPECT_EQ(driver.cached[2], 16);
  driver.add(3, again);
  driver.run();
  EXPECT_EQ(driver.cached[3], 32);
}

TEST(Scheduler, ScoredPromptsTakeNoHits) {
  SchedulerOptions options = small();
  options.enable_prefix_caching = true;
  Driver driver(options);
  driver.add(1, prompt_of(40, 2));
  driver.run();
  request::Request scored = prompt_of(40, 2);
  scored.sampling.prompt_logprobs = 0;
  driver.add(2, scored);
  EXPECT_TRUE(driver.step().rows.at(0).score_prompt);
  driver.run();
  EXPECT_EQ(driver.cached[2], 0);
}

TEST(Scheduler, AFailedStepEndsItsRequestsOnly) {
  SchedulerOptions options = small();
  options.max_num_seqs = 1;
  Scheduler scheduler(options);
  scheduler.add(1, prompt_of(5, 4), 1, 0);
  scheduler.add(2, prompt_of(5, 4), 1, 0);
  StepResult result;
  result.status = error(StatusCode::kInternal, "device lost");
  scheduler.update(scheduler.schedule(0), result);
  ASSERT_EQ(scheduler.outcomes().size(), 1U);
  EXPECT_EQ(scheduler.outcomes()[0].finish_reason, FinishReason::kError);
  EXPECT_THAT(scheduler.outcomes()[0].error.message(), HasSubstr("device lost"));
  EXPECT_EQ(scheduler.schedule(0).rows.at(0).request_id, 2U);
}

TEST(Scheduler, ANonFiniteRowEndsAlone) {
  Scheduler scheduler(small());
  scheduler.add(1, prompt_of(5, 1), 1, 0);
  scheduler.add(2, prompt_of(5, 1), 1, 0);
  const int32_t token = 9;
  StepResult result;
  result.rows.push_back({.finite = false, .ids = std::span(&token, 1)});
  result.rows.push_back({.finite = true, .ids = std::span(&token, 1)});
  scheduler.update(scheduler.schedule(0), result);
  ASSERT_EQ(scheduler.outcomes().size(), 2U);
  EXPECT_EQ(scheduler.outcomes()[0].finish_reason, FinishReason::kError);
  EXPECT_EQ(scheduler.outcomes()[0].num_new_tokens, 0);
  EXPECT_EQ(scheduler.outcomes()[1].finish_reason, FinishReason::kLength);
  EXPECT_EQ(scheduler.outcomes()[1].new_tokens[0], 9);
}

TEST(Scheduler, AnAbandonedStepIsAsIfItHadNotBeen) {
  Driver driver(small(), 1);
  driver.add(1, prompt_of(5, 4));
  driver.add(2, prompt_of(5, 4));
  driver.step();
  const StepPlan& plan = driver.scheduler.schedule(0);
  const uint64_t step_id = plan.step_id;
  const RowError offender{.row = 1, .error = error(StatusCode::kInvalidArgument, "bad row")};
  driver.scheduler.abandon(plan, std::span(&offender, 1));
  driver.take_outcomes();
  EXPECT_EQ(driver.reasons[2], FinishReason::kError);
  const StepPlan& again = driver.step();
  EXPECT_EQ(again.step_id, step_id);
  EXPECT_EQ(again.rows.size(), 1U);
  driver.run();
  driver.expect_whole(1, 5, 4);
}

}  // namespace
}  // namespace lockstep::scheduler
