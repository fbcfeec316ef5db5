// SPDX-License-Identifier: Apache-2.0
#include "engine/call_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CallSplit, LargestCallsFirst) {
  const auto split = CallSplit::create({1, 16}, 64);
  ASSERT_TRUE(split);
  std::vector<int64_t> calls;
  split->split(5, calls);
  EXPECT_THAT(calls, ElementsAre(1, 1, 1, 1, 1));
  split->split(16, calls);
  EXPECT_THAT(calls, ElementsAre(16));
  split->split(34, calls);
  EXPECT_THAT(calls, ElementsAre(16, 16, 1, 1));
}

TEST(CallSplit, AnySizeIsOneCall) {
  std::vector<int64_t> calls;
  CallSplit::create({}, 64)->split(63, calls);
  EXPECT_THAT(calls, ElementsAre(63));
}

TEST(CallSplit, RefusesWhatCannotBePutTogether) {
  const auto split = CallSplit::create({16, 4}, 64);
  ASSERT_FALSE(split);
  EXPECT_EQ(split.error().code(), StatusCode::kUnsupported);
  EXPECT_THAT(split.error().message(), HasSubstr("16, 4"));
}

}  // namespace
}  // namespace lockstep::engine
