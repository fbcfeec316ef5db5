// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

Expected<int> parse(int x) {
  if (x < 0) return invalid_argument("x is {}, at least 0", x);
  return x;
}

Expected<int> twice(int x) {
  LOCKSTEP_ASSIGN_OR_RETURN(const int value, parse(x));
  return 2 * value;
}

Status check(int x) {
  LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const int value, parse(x));
  LOCKSTEP_RETURN_IF_ERROR(Status());
  return {};
}

TEST(Status, CarriesCodeAndMessage) {
  EXPECT_EQ(*twice(3), 6);
  const auto failed = twice(-1);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(failed.error().to_string(), "invalid_argument: x is -1, at least 0");
  EXPECT_TRUE(check(1).ok());
  EXPECT_EQ(check(-1).with_context("file a").message(), "file a: x is -1, at least 0");
  EXPECT_TRUE(Status().with_context("file a").ok());
}

}  // namespace
}  // namespace lockstep
