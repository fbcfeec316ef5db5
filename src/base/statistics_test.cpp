// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Statistics, MedianAndPercentiles) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(percentile({}, 0.5), 0);
  EXPECT_EQ(percentile({5, 1, 3}, 0), 1);
  EXPECT_EQ(percentile({5, 1, 3}, 1), 5);
  EXPECT_EQ(percentile({5, 1, 3, 2, 4}, 0.75), 4);
}

TEST(Statistics, TheIntervalHoldsTheMedianAndNarrows) {
  std::vector<double> few, many;
  for (int i = 0; i < 1000; ++i) (i < 20 ? few : many).push_back(i * 7919 % 101);
  const Interval wide = median_interval(few);
  const Interval narrow = median_interval(many);
  for (const Interval& one : {wide, narrow}) {
    EXPECT_LE(one.low, one.median);
    EXPECT_LE(one.median, one.high);
  }
  EXPECT_LT(narrow.high - narrow.low, wide.high - wide.low);
  const Interval constant = median_interval({2, 2, 2});
  EXPECT_EQ(constant.low, 2);
  EXPECT_EQ(constant.high, 2);
}

}  // namespace
}  // namespace lockstep
