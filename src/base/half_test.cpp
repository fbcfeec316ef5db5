// SPDX-License-Identifier: Apache-2.0
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

TEST(Half, EveryF16RoundTrips) {
  for (uint32_t i = 0; i < 0x10000u; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const float value = f16_to_f32(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value))));
      continue;
    }
    ASSERT_EQ(f32_to_f16(value), half) << i;
    const int exponent = (half >> 10) & 0x1f;
    if (exponent == 0x1f) continue;
    const double want =
        std::ldexp(exponent == 0 ? (half & 0x3ff) : (half & 0x3ff) + 1024, (exponent == 0 ? 1 : exponent) - 25);
    ASSERT_EQ(std::fabs(static_cast<double>(value)), want) << i;
  }
}

TEST(Half, F16RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint32_t i = 0; i < 0x7bffu; ++i) {
    const float low = f16_to_f32(static_cast<uint16_t>(i));
    const float high = f16_to_f32(static_cast<uint16_t>(i + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(f32_to_f16(middle), (i & 1u) != 0 ? i + 1 : i);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9f)), i + 1);
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), i);
  }
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
}

TEST(Half, Bf16) {
  for (uint32_t i = 0; i < 0x10000u; ++i) {
    const float value = bf16_to_f32(static_cast<uint16_t>(i));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value))));
    } else {
      ASSERT_EQ(f32_to_bf16(value), i);
    }
  }
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie to even
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x00000001u)), 0x0000);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x00018000u)), 0x0002);  // denormals are kept
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::infinity()), 0x7f80);
}

}  // namespace
}  // namespace lockstep
