// SPDX-License-Identifier: Apache-2.0
#include "scheduler/prefill_pacer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "scheduler/scheduler.h"

namespace lockstep::scheduler {
namespace {

TEST(PrefillPacer, WithoutTimesOrDecodeRowsNothingIsLimited) {
  PrefillPacer pacer;
  EXPECT_EQ(pacer.limit(4), PrefillPacer::kUnlimited);
  pacer.observe(4, 100, 0.0);
  EXPECT_EQ(pacer.limit(4), PrefillPacer::kUnlimited);
  pacer.observe(0, 100, 1.0);
  EXPECT_EQ(pacer.limit(0), PrefillPacer::kUnlimited);
}

TEST(PrefillPacer, LooksAtAPureStepFirstThenAllowsWhatFits) {
  PrefillPacer pacer;
  pacer.observe(0, 1000, 1.0);  // 1 ms a token
  EXPECT_EQ(pacer.limit(4), 0);
  EXPECT_EQ(pacer.limit(4), PrefillPacer::kLeast);  // not seen yet: planned ahead
  pacer.observe(4, 0, 0.100);
  EXPECT_EQ(pacer.limit(4), 112);  // 125 ms more, whole tiles
  pacer.observe(4, 112, 0.1 + 112 * 0.004);
  EXPECT_LT(pacer.limit(4), 112);
}

TEST(PrefillPacer, PrefillNeverStops) {
  PrefillPacer pacer;
  pacer.observe(0, 1, 100.0);
  pacer.observe(2, 0, 1e-6);
  int64_t zeros = 0;
  for (int i = 0; i < 1000; ++i) zeros += pacer.limit(2) == 0 ? 1 : 0;
  EXPECT_LE(zeros, 1000 / 64);
  EXPECT_EQ(pacer.limit(2), PrefillPacer::kLeast);
}

// Time passes as on a machine where a decode step takes 20 ms and a prompt token 1 ms (+- 10 %), attention growing
// along.
class PacedScheduler {
 public:
  explicit PacedScheduler(SchedulerOptions options) : scheduler(std::move(options)) {}

  void add(uint64_t id, int64_t prompt, int64_t max_tokens) {
    request::Request request;
    request.prompt_token_ids.assign(static_cast<size_t>(prompt), static_cast<int32_t>(id));
    request.sampling.max_tokens = max_tokens;
    scheduler.add(id, std::move(request), 0, now);
  }

  void step() {
    const StepPlan& plan = scheduler.schedule(now);
    if (plan.empty()) return;
    double seconds = plan.num_decode_rows > 0 ? 0.020 : 0.0;
    int64_t chunk_tokens = 0;
    StepResult result;
    const int32_t token = 5;
    for (size_t i = 0; i < plan.rows.size(); ++i) {
      const PlanRow& row = plan.rows[i];
      if (static_cast<int64_t>(i) >= plan.num_decode_rows) {
        chunk_tokens += row.num_tokens;
        const double noise = 0.9 + 0.2 * static_cast<double>(random_() % 1000) / 1000.0;
        seconds +=
            noise * static_cast<double>(row.num_tokens) * (0.001 + 2e-7 * static_cast<double>(row.first_position));
      }
      result.rows.push_back({.finite = true, .ids = std::span(&token, static_cast<size_t>(row.num_samples))});
    }
    result.wall_s = seconds;
    now += seconds;
    if (plan.num_decode_rows > 0) (chunk_tokens > 0 ? mixed : pure).push_back(seconds);
    scheduler.update(plan, result);
    for (const Outcome& outcome : scheduler.outcomes()) {
      if (outcome.num_new_tokens > 0) first_token.try_emplace(outcome.request_id, now);
    }
    scheduler.clear_outcomes();
  }

  Scheduler scheduler;
  double now = 0;
  std::vector<double> mixed, pure;
  std::unordered_map<uint64_t, double> first_token;

 private:
  std::mt19937 random_{3};
};

SchedulerOptions large() {
  SchedulerOptions options;
  options.max_model_len = 8192;
  options.num_blocks = 8192;
  return options;
}

TEST(AdaptiveBudget, DecodeRowsKeepTheirPaceBesideLongPrompts) {
  PacedScheduler paced(large());
  for (uint64_t id = 1; id <= 4; ++id) paced.add(id, 30, 2000);
  for (int i = 0; i < 20; ++i) paced.step();
  for (uint64_t id = 10; id < 16; ++id) paced.add(id, 2500, 1);
  for (int i = 0; i < 1500; ++i) paced.step();
  ASSERT_GT(paced.mixed.size(), 300U);
  for (uint64_t id = 10; id < 16; ++id) EXPECT_TRUE(paced.first_token.contains(id)) << id;
  std::vector<double> all = paced.mixed;
  all.insert(all.end(), paced.pure.begin(), paced.pure.end());
  std::sort(all.begin(), all.end());
  std::sort(paced.pure.begin(), paced.pure.end());
  const double median = paced.pure[paced.pure.size() / 2];
  EXPECT_LE(all[all.size() * 99 / 100], 3 * median);
  // And the room is used: prefill goes on at no less than a third of its own speed.
  const double spent = std::accumulate(paced.mixed.begin(), paced.mixed.end(), 0.0);
  EXPECT_GT(6 * 2500 * 0.001 / spent, 1.0 / 3);
}

TEST(AdaptiveBudget, SwitchedOffTheFlagsDecide) {
  SchedulerOptions options = large();
  options.adaptive_budget = false;
  PacedScheduler paced(options);
  paced.add(1, 30, 100);
  for (int i = 0; i < 5; ++i) paced.step();
  paced.add(2, 5000, 1);
  paced.step();
  EXPECT_GT(paced.mixed.back(), 1.8);  // 2048 tokens in one step
}

TEST(Fairness, AShortPromptDoesNotWaitForALongOne) {
  PacedScheduler paced(large());
  for (uint64_t id = 1; id <= 4; ++id) paced.add(id, 6000, 1);
  paced.step();
  paced.add(9, 40, 1);
  const double arrival = paced.now;
  while (!paced.first_token.contains(9)) paced.step();
  const double short_wait = paced.first_token[9] - arrival;
  while (paced.scheduler.has_requests()) paced.step();
  for (uint64_t id = 1; id <= 4; ++id) EXPECT_GT(paced.first_token[id], paced.first_token[9]) << id;
  EXPECT_LT(short_wait, 6.0);  // the step that it shares
}

}  // namespace
}  // namespace lockstep::scheduler
