// SPDX-License-Identifier: Apache-2.0
#include "cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace lockstep::cpu {
namespace {

TEST(ThreadPoolTest, RunsEachPieceOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads, /*pin=*/false);
    EXPECT_EQ(pool.size(), threads);
    for (const int64_t pieces : {0, 1, 2, 7, 1000}) {
      std::vector<int> runs(static_cast<size_t>(pieces),
                            0);  // not atomic: a piece has one owner and parallel_for publishes
      pool.parallel_for(pieces, [&](int64_t piece, int worker) {
        ASSERT_GE(worker, 0);
        ASSERT_LT(worker, threads);
        ++runs[static_cast<size_t>(piece)];
      });
      EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(pieces), 1));
    }
  }
}

TEST(ThreadPoolTest, ManyShortJobsInARowSeeTheirOwnData) {
  ThreadPool pool(4, /*pin=*/false);
  for (int64_t job = 0; job < 20000; ++job) {
    std::vector<int64_t> out(static_cast<size_t>(job % 5 + 2), -1);
    pool.parallel_for(std::ssize(out), [&](int64_t piece, int) { out[static_cast<size_t>(piece)] = job + piece; });
    for (int64_t i = 0; i < std::ssize(out); ++i) ASSERT_EQ(out[static_cast<size_t>(i)], job + i);
  }
}

TEST(ThreadPoolTest, WakesSleepersAndSleepsForSlowPieces) {
  ThreadPool pool(3, /*pin=*/true);
  for (int job = 0; job < 5; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));  // workers are asleep by now
    std::atomic<int> sum{0};
    pool.parallel_for(6, [&](int64_t piece, int worker) {
      if (worker != 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the caller runs out of pieces and sleeps
      sum += static_cast<int>(piece);
    });
    EXPECT_EQ(sum.load(), 15);
  }
}

TEST(ThreadPoolTest, WorkersShareTheWork) {
  ThreadPool pool(2, /*pin=*/false);
  std::atomic<int> ran[2] = {0, 0};
  // Each worker waits until the other has run a piece: ends only if both work.
  pool.parallel_for(2, [&](int64_t, int worker) {
    ++ran[worker];
    while (ran[0].load() == 0 || ran[1].load() == 0) std::this_thread::yield();
  });
  EXPECT_EQ(ran[0].load(), 1);
  EXPECT_EQ(ran[1].load(), 1);
}

TEST(ThreadPoolTest, DenormalsSurviveWhateverTheCallerSet) {
  ThreadPool pool(2, /*pin=*/false);
  const uint32_t saved = _mm_getcsr();
  const uint32_t flushing = saved | 0x8040u;  // FTZ and DAZ
  _mm_setcsr(flushing);
  std::vector<float> out(64, 0.0f);
  volatile float tiny = 0x1p-126f;
  pool.parallel_for(64, [&](int64_t piece, int) { out[static_cast<size_t>(piece)] = tiny * 0.25f; });
  EXPECT_EQ(_mm_getcsr() & 0x8040u, 0x8040u);  // the caller's own setting came back
  _mm_setcsr(saved);
  for (const float x : out) EXPECT_EQ(x, 0x1p-128f);
}

TEST(ThreadPoolTest, OnePieceRunsInTheSameEnvironment) {
  ThreadPool pool(2, /*pin=*/false);
  const uint32_t saved = _mm_getcsr();
  _mm_setcsr(saved | 0x8040u);
  uint32_t inside = 1;
  pool.parallel_for(1, [&](int64_t, int) { inside = _mm_getcsr(); });
  _mm_setcsr(saved);
  EXPECT_EQ(inside & ~0x3fu, 0x1f80u);
}

TEST(AvailableCoresTest, IsPositive) { EXPECT_GE(available_cores(), 1); }

}  // namespace
}  // namespace lockstep::cpu
