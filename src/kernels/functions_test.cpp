// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kernels/test_tables.h"

namespace lockstep::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Distance in units in the last place of the exact value's binade.
double ulps(float value, double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::abs(static_cast<double>(value) - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

/// Every float between the bit patterns (same sign), through the widest table that this CPU has; each table equals
/// exp_ref in bits.
double worst_exp_ulps(uint32_t first_bits, uint32_t last_bits) {
  const KernelTable& table = *tables_to_test().back();
  std::vector<float> x(1 << 14), y(1 << 14);
  double worst = 0.0;
  for (uint64_t bits = first_bits; bits <= last_bits; bits += x.size()) {
    const size_t count = std::min<uint64_t>(x.size(), last_bits - bits + 1);
    for (size_t i = 0; i < count; ++i) x[i] = std::bit_cast<float>(static_cast<uint32_t>(bits + i));
    table.exp_array(x.data(), static_cast<int64_t>(count), y.data());
    for (size_t i = 0; i < count; ++i) worst = std::max(worst, ulps(y[i], std::exp(static_cast<double>(x[i]))));
  }
  return worst;
}

TEST(ExpTest, WithinTwoUlpsEverywhere) {
  // Below 2^-25 in magnitude the result is 1 or its neighbour; from there to the ends every float is tried.
  EXPECT_LE(worst_exp_ulps(std::bit_cast<uint32_t>(0x1p-25f), std::bit_cast<uint32_t>(0x1.62e42ep+6f)), 2.0);
  EXPECT_LE(worst_exp_ulps(std::bit_cast<uint32_t>(-0x1p-25f), std::bit_cast<uint32_t>(-0x1.5d589ep+6f)), 2.0);
}

TEST(ExpTest, EndsAndSpecialValues) {
  EXPECT_EQ(exp_ref(0.0f), 1.0f);
  EXPECT_EQ(exp_ref(-0.0f), 1.0f);
  EXPECT_EQ(exp_ref(0x1p-149f), 1.0f);
  EXPECT_EQ(exp_ref(0x1.62e43p+6f), kInf);
  EXPECT_EQ(exp_ref(kInf), kInf);
  EXPECT_EQ(exp_ref(3e38f), kInf);
  EXPECT_TRUE(std::isfinite(exp_ref(0x1.62e42ep+6f)));
  EXPECT_EQ(exp_ref(-0x1.5d58ap+6f), 0.0f);
  EXPECT_GE(exp_ref(-0x1.5d589ep+6f), 0x1p-126f * (1 - 0x1p-22f));
  EXPECT_EQ(exp_ref(-kInf), 0.0f);
  EXPECT_EQ(exp_ref(-3e38f), 0.0f);
  EXPECT_TRUE(std::isnan(exp_ref(std::numeric_limits<float>::quiet_NaN())));
}

TEST(LogTest, WithinTwoUlps) {
  for (uint32_t i = 0; i < 1000000; ++i) {
    const float x = std::bit_cast<float>(1 + philox4x32({i, 1, 0, 0}, {0, 0})[0] % 0x7f7fffffu);
    const double exact = std::log(static_cast<double>(x));
    ASSERT_LE(ulps(log_ref(x), exact), 2.0) << x;
  }
  EXPECT_EQ(log_ref(1.0f), 0.0f);
  EXPECT_EQ(log_ref(0.0f), -kInf);
  EXPECT_EQ(log_ref(kInf), kInf);
  EXPECT_TRUE(std::isnan(log_ref(-1.0f)));
  EXPECT_TRUE(std::isnan(log_ref(std::numeric_limits<float>::quiet_NaN())));
}

TEST(SinCosTest, RoundedRightToOneUlp) {
  const auto check = [](float angle) {
    float sine = 0, cosine = 0;
    sin_cos_ref(angle, &sine, &cosine);
    ASSERT_LE(ulps(sine, std::sin(static_cast<double>(angle))), 1.0) << angle;
    ASSERT_LE(ulps(cosine, std::cos(static_cast<double>(angle))), 1.0) << angle;
  };
  for (int position = 0; position < 200000; ++position) check(static_cast<float>(position));
  for (uint32_t i = 0; i < 200000; ++i) check(static_cast<float>(philox4x32({i, 2, 0, 0}, {0, 0})[0] >> 8) * 0x1p-14f);
  float sine = 1, cosine = 0;
  sin_cos_ref(0.0f, &sine, &cosine);
  EXPECT_EQ(sine, 0.0f);
  EXPECT_EQ(cosine, 1.0f);
}

TEST(PowTest, FarBetterThanDoubleRounding) {
  for (const double base : {1.0, 1.5, 2.0, 10000.0, 500000.0, 1e6, 1e7}) {
    for (int i = 0; i <= 256; ++i) {
      const double exponent = static_cast<double>(i) / 256.0;
      for (const double signed_exponent : {exponent, -exponent}) {
        const long double exact = std::pow(static_cast<long double>(base), static_cast<long double>(signed_exponent));
        EXPECT_LT(
            std::abs(static_cast<double>((static_cast<long double>(pow_ref(base, signed_exponent)) - exact) / exact)),
            1e-14);
      }
    }
  }
  EXPECT_EQ(pow_ref(10000.0, 0.0), 1.0);
}

}  // namespace
}  // namespace lockstep::kernels
