// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/executor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

namespace lockstep::backend::cpu_detail {
namespace {

Job job(uint64_t step_id) {
  Job out;
  out.args.step_id = step_id;
  return out;
}

TEST(Executor, RunsInOrderAndWaits) {
  std::vector<uint64_t> seen;       // read after the last wait
  std::atomic<uint64_t> count = 0;  // read while the next job runs
  Executor executor([&](const Job& one) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    seen.push_back(one.args.step_id);
    ++count;
  });
  StepTicket before{};
  for (uint64_t i = 1; i <= 20; ++i) {
    const auto ticket = executor.submit(job(i));
    ASSERT_TRUE(ticket);
    if (before.id != 0) {
      ASSERT_TRUE(executor.wait(before).ok());
      ASSERT_GE(count, i - 1);
    }
    before = *ticket;
  }
  ASSERT_TRUE(executor.wait(before).ok());
  ASSERT_EQ(seen.size(), 20u);
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(seen[i], i + 1);
}

TEST(Executor, RefusesAThirdInFlight) {
  std::atomic<bool> go{false};
  Executor executor([&](const Job&) {
    while (!go) std::this_thread::yield();
  });
  const auto first = executor.submit(job(1));
  const auto second = executor.submit(job(2));
  ASSERT_TRUE(first && second);
  const auto third = executor.submit(job(3));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(executor.wait({.id = 3}).ok());
  EXPECT_FALSE(executor.wait({.id = 0}).ok());
  go = true;
  EXPECT_TRUE(executor.wait(*second).ok());
  EXPECT_EQ(executor.in_flight(), 0u);
  EXPECT_TRUE(executor.wait(*first).ok());
  EXPECT_TRUE(executor.submit(job(3)));
}

TEST(Executor, FinishesWhatIsInFlightBeforeItEnds) {
  std::atomic<int> ran{0};
  {
    Executor executor([&](const Job&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      ++ran;
    });
    ASSERT_TRUE(executor.submit(job(1)));
    ASSERT_TRUE(executor.submit(job(2)));
  }
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace lockstep::backend::cpu_detail
