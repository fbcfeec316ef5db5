// SPDX-License-Identifier: Apache-2.0
#include "cpu/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include "cpu/features.h"
#include "cpu/measure.h"
#include "cpu/thread_pool.h"

namespace lockstep::cpu {
namespace {

TEST(CoresTest, ParsesCpuMax) {
  EXPECT_EQ(cores_of_cpu_max("max 100000\n"), 0);
  EXPECT_EQ(cores_of_cpu_max("200000 100000\n"), 2);
  EXPECT_EQ(cores_of_cpu_max("150000 100000"), 2);
  EXPECT_EQ(cores_of_cpu_max("1000 100000"), 1);
  EXPECT_EQ(cores_of_cpu_max("9000000000000000000 1"), 1 << 16);
  EXPECT_EQ(cores_of_cpu_max(""), 0);
  EXPECT_EQ(cores_of_cpu_max("-5 100000"), 0);
  EXPECT_EQ(cores_of_cpu_max("100000 0"), 0);
}

TEST(CoresTest, FollowsTheAffinityMask) {
  cpu_set_t saved;
  ASSERT_EQ(sched_getaffinity(0, sizeof(saved), &saved), 0);
  const std::vector<int> all = granted_cores();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(static_cast<int>(all.size()), CPU_COUNT(&saved));
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(all.back()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(granted_cores(), std::vector<int>{all.back()});
  EXPECT_EQ(available_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(saved), &saved), 0);
}

TEST(FeaturesTest, LevelsImplyTheLowerOnes) {
  const Features features = detect_features();
  if (features.avx512) {
    EXPECT_TRUE(features.avx2 && features.fma);
  }
  if (features.avx512_vnni || features.avx512_bf16) {
    EXPECT_TRUE(features.avx512);
  }
  EXPECT_FALSE(cpu_name().empty());
}

TEST(MeasureTest, GivesPlausibleFigures) {
  ThreadPool pool(1, /*pin=*/false);
  const Expected<double> read = measure_read_gbps(pool);
  ASSERT_TRUE(read.has_value());
  EXPECT_GT(*read, 0.2);
  EXPECT_LT(*read, 2000.0);
  EXPECT_GT(measure_fma_gflops(pool), 1.0);  // a tenth of one slow core
  const double int8 = measure_int8_gops(pool);
  EXPECT_GT(int8, 2.0);
  EXPECT_LT(int8, 5000.0);  // 2 units x 64 bytes x 2 x 6 GHz is 1536
}

}  // namespace
}  // namespace lockstep::cpu
