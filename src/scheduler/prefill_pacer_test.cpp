// SPDX-License-Identifier: Apache-2.0
#include "scheduler/prefill_pacer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <unordered_map>
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
  EXPECT_EQ(pacer.limit(4), PrefillPacer::kFirst);  // not seen yet: planned ahead
  pacer.observe(4, 0, 0.100);
  int64_t tokens = 0;
  for (int i = 0; i < 50; ++i) {
    tokens = pacer.limit(4);
    pacer.observe(4, tokens, 0.100 + 0.001 * static_cast<double>(tokens));
  }
  EXPECT_GE(tokens, 80);
  EXPECT_LE(tokens, 128);  // 125 ms more is the target
  pacer.observe(4, tokens, 0.1 + static_cast<double>(tokens) * 0.004);
  EXPECT_LT(pacer.limit(4), tokens);
}

TEST(PrefillPacer, ShortPromptsDoNotRaiseTheLimit) {
  PrefillPacer pacer;
  pacer.observe(4, 0, 0.100);
  for (int i = 0; i < 60; ++i) {
    pacer.limit(4);
    pacer.observe(4, 8, 0.101);
  }
  EXPECT_EQ(pacer.limit(4), PrefillPacer::kFirst);
}

TEST(PrefillPacer, PrefillNeverStops) {
  PrefillPacer pacer;
  pacer.observe(2, 0, 1e-6);
  int64_t zeros = 0;
  for (int i = 0; i < 1000; ++i) {
    const int64_t tokens = pacer.limit(2);
    zeros += tokens == 0 ? 1 : 0;
    if (tokens > 0) pacer.observe(2, tokens, 100.0);
  }
  EXPECT_LE(zeros, 1000 / 64);
  EXPECT_EQ(pacer.limit(2), PrefillPacer::kLeast);
}

TEST(PrefillPacer, OneSlowStepAmongThePureOnesChangesNothing) {
  PrefillPacer pacer;
  for (const double seconds : {0.010, 0.010, 0.500, 0.010}) pacer.observe(2, 0, seconds);
  pacer.limit(2);
  pacer.observe(2, 16, 0.0241);
  EXPECT_LT(pacer.target(), PrefillPacer::kLargestTarget);
}

TEST(PrefillPacer, TheTargetFallsWithLateStepsAndRisesWithoutThem) {
  PrefillPacer pacer;
  pacer.observe(2, 0, 0.010);
  pacer.observe(2, 16, 0.0239);
  EXPECT_EQ(pacer.target(), PrefillPacer::kLargestTarget);
  pacer.observe(2, 16, 0.0241);
  EXPECT_DOUBLE_EQ(pacer.target(), 0.9 * PrefillPacer::kLargestTarget);
  pacer.observe(2, 0, 0.100);  // late without a prompt: nothing that a smaller chunk could help
  EXPECT_DOUBLE_EQ(pacer.target(), 0.9 * PrefillPacer::kLargestTarget);
  for (int i = 0; i < 20; ++i) pacer.observe(2, 16, 1.0);
  EXPECT_EQ(pacer.target(), PrefillPacer::kLeastTarget);
  for (int i = 0; i < 2000; ++i) pacer.observe(2, 16, 0.001);
  EXPECT_EQ(pacer.target(), PrefillPacer::kLargestTarget);
}

// What a step takes on a machine that is made up: 20 ms for decode rows, and for chunks what `chunk` says.
struct Machine {
  std::function<double(double tokens, double position)> chunk;
  double noise = 0.1;       // times 1 - noise to 1 + noise
  double stall_chance = 0;  // a step with a chunk, now and then,
  double stall_factor = 1;  // takes so many times longer
};

// 1 ms a prompt token, attention growing along.
double even(double tokens, double position) { return tokens * (0.001 + 2e-7 * position); }

class PacedScheduler {
 public:
  explicit PacedScheduler(SchedulerOptions options, Machine machine = {.chunk = even})
      : scheduler(std::move(options)), machine_(std::move(machine)) {}

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
        seconds += machine_.chunk(static_cast<double>(row.num_tokens), static_cast<double>(row.first_position)) *
                   (1 - machine_.noise + 2 * machine_.noise * uniform());
      }
      result.rows.push_back({.finite = true, .ids = std::span(&token, static_cast<size_t>(row.num_samples))});
    }
    if (chunk_tokens > 0 && uniform() < machine_.stall_chance) seconds *= machine_.stall_factor;
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
  double uniform() { return static_cast<double>(random_() % 1000) / 1000.0; }

  Machine machine_;
  std::mt19937 random_{3};
};

SchedulerOptions large() {
  SchedulerOptions options;
  options.max_model_len = 8192;
  options.num_blocks = 8192;
  return options;
}

// Four streams beside six prompts of 2500 tokens: the 99th percentile of their steps over the median without prompts,
// and the speed of prefill against prefill alone.
struct Pace {
  double p99 = 0;
  double prefill = 0;
};

Pace pace_on(const Machine& machine) {
  PacedScheduler paced(large(), machine);
  for (uint64_t id = 1; id <= 4; ++id) paced.add(id, 30, 6000);
  for (int i = 0; i < 20; ++i) paced.step();
  for (uint64_t id = 10; id < 16; ++id) paced.add(id, 2500, 1);
  const auto all_done = [&] {
    for (uint64_t id = 10; id < 16; ++id) {
      if (!paced.first_token.contains(id)) return false;
    }
    return true;
  };
  for (int i = 0; i < 5000 && !all_done(); ++i) paced.step();
  EXPECT_TRUE(all_done());
  EXPECT_GT(paced.mixed.size(), 200U);
  std::vector<double> all = paced.mixed;
  all.insert(all.end(), paced.pure.begin(), paced.pure.end());
  std::sort(all.begin(), all.end());
  std::sort(paced.pure.begin(), paced.pure.end());
  const double median = paced.pure[paced.pure.size() / 2];
  const double alone = 6 * 2500 * machine.chunk(1, 1250);
  return {all[all.size() * 99 / 100] / median, alone / std::accumulate(paced.mixed.begin(), paced.mixed.end(), 0.0)};
}

TEST(AdaptiveBudget, DecodeRowsKeepTheirPaceBesideLongPrompts) {
  const Pace pace = pace_on({.chunk = even});
  EXPECT_LE(pace.p99, PrefillPacer::kPromise);
  EXPECT_GT(pace.prefill, 1.0 / 3);  // and the room is used
}

TEST(AdaptiveBudget, DecodeRowsKeepTheirPaceOnABusyMachine) {
  for (const double noise : {0.3, 0.6, 0.9}) {
    const Pace pace = pace_on({.chunk = even, .noise = noise});
    EXPECT_LE(pace.p99, PrefillPacer::kPromise) << noise;
    EXPECT_GT(pace.prefill, 0.15) << noise;
  }
}

// Every fiftieth step with a prompt takes 1.8 times as long: smaller chunks bring these within the promise too.
TEST(AdaptiveBudget, StallsLowerTheTarget) {
  const Pace pace = pace_on({.chunk = even, .stall_chance = 0.02, .stall_factor = 1.8});
  EXPECT_LE(pace.p99, PrefillPacer::kPromise);
  EXPECT_GT(pace.prefill, 0.15);
}

TEST(AdaptiveBudget, CostsThatAreNoStraightLine) {
  const Pace fixed = pace_on({.chunk = [](double tokens, double) { return 0.010 + tokens * 0.001; }});
  EXPECT_LE(fixed.p99, PrefillPacer::kPromise);
  const Pace steps = pace_on({.chunk = [](double tokens, double) { return std::ceil(tokens / 16) * 0.016; }});
  EXPECT_LE(steps.p99, PrefillPacer::kPromise);
}

// A prompt token takes 6 ms of a decode step's 20: chunks of whole tiles would be far too long.
TEST(AdaptiveBudget, FewRowsOnASlowMachineGetFewTokens) {
  const Pace pace = pace_on({.chunk = [](double tokens, double) { return tokens * 0.006; }});
  EXPECT_LE(pace.p99, PrefillPacer::kPromise);
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
