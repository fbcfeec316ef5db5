// SPDX-License-Identifier: Apache-2.0
// Expected values: the published formulas (transformers' modeling_rope_utils.py) in double precision, computed apart
// from this code.
#include "model/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/context.h"

namespace lockstep::model {
namespace {

using loader::RopeConfig;
using loader::RopeType;
using Points = std::vector<std::pair<size_t, double>>;

void expect_points(const Rope& rope, int64_t dim, const Points& points) {
  ASSERT_EQ(static_cast<int64_t>(rope.inverse_frequencies.size()), dim / 2);
  for (const auto& [index, value] : points) {
    EXPECT_NEAR(rope.inverse_frequencies[index] / value, 1.0, 1e-6) << "index " << index;
  }
}

RopeConfig config(RopeType type, double theta, double factor, int64_t original) {
  RopeConfig out;
  out.type = type;
  out.theta = theta;
  out.factor = factor;
  out.original_max_position = original;
  return out;
}

TEST(Rope, Default) {
  const Rope rope = make_rope(config(RopeType::kDefault, 1e6, 1.0, 0), 128, 40960);
  expect_points(rope, 128,
                {{0, 1.0}, {1, 0.805842188}, {17, 0.0254829675}, {40, 0.000177827941}, {63, 1.24093776e-06}});
  EXPECT_EQ(rope.scale, 1.0f);
}

TEST(Rope, Linear) {
  const Rope rope = make_rope(config(RopeType::kLinear, 1e6, 4.0, 0), 128, 40960);
  expect_points(rope, 128, {{0, 0.25}, {1, 0.805842188 / 4}, {63, 1.24093776e-06 / 4}});
}

TEST(Rope, Llama3) {
  const Rope tiny = make_rope(config(RopeType::kLlama3, 5e5, 8.0, 64), 32, 2048);
  expect_points(tiny, 32, {{0, 1.0}, {1, 0.440366603}, {2, 0.0794030092}, {3, 0.0106746375}, {15, 5.6770881e-07}});
  const Rope large = make_rope(config(RopeType::kLlama3, 5e5, 8.0, 8192), 128, 131072);
  expect_points(large, 128,
                {{20, 0.0165604401},
                 {28, 0.00321144599},
                 {29, 0.00216657076},
                 {31, 0.000856751413},
                 {34, 0.000178507813},
                 {35, 9.55621235e-05},
                 {36, 7.78465527e-05},
                 {63, 3.06892599e-07}});
}

TEST(Rope, Yarn) {
  const Rope tiny = make_rope(config(RopeType::kYarn, 1e6, 4.0, 64), 32, 256);
  expect_points(tiny, 32, {{0, 1.0}, {1, 0.316272378}, {2, 0.0889139705}, {3, 0.0187473552}, {15, 5.92843426e-07}});
  EXPECT_NEAR(tiny.scale, 1.138629436, 1e-7);
  RopeConfig large = config(RopeType::kYarn, 1e6, 4.0, 32768);
  expect_points(
      make_rope(large, 128, 131072), 128,
      {{20, 0.0133352143}, {24, 0.00537532149}, {35, 0.000246258407}, {39, 6.49039432e-05}, {40, 4.44569853e-05}});
  large.truncate = false;
  expect_points(make_rope(large, 128, 131072), 128,
                {{23, 0.00697830585}, {24, 0.00551727048}, {30, 0.00107923774}, {39, 6.18780681e-05}});
}

TEST(Rope, YarnAttentionFactor) {
  RopeConfig yarn = config(RopeType::kYarn, 1e6, 40.0, 4096);
  yarn.mscale = 0.7;
  yarn.mscale_all_dim = 1.3;
  EXPECT_NEAR(make_rope(yarn, 64, 4096).scale, 0.85040578578, 1e-7);
  yarn.attention_factor = 1.5;
  EXPECT_EQ(make_rope(yarn, 64, 4096).scale, 1.5f);
}

TEST(Rope, DynamicFollowsTheServedContext) {
  const RopeConfig dynamic = config(RopeType::kDynamic, 1e4, 2.0, 0);
  const Points plain = {{0, 1.0}, {1, 0.865964323}, {20, 0.0562341325}, {63, 0.000115478198}};
  expect_points(make_rope(dynamic, 128, 4096), 128, plain);
  expect_points(make_rope(dynamic, 128, 4096, 100), 128, plain);
  expect_points(make_rope(dynamic, 128, 4096, 4097), 128,
                {{0, 1.0}, {1, 0.865957613}, {20, 0.0562254185}, {63, 0.00011542184}});
  expect_points(make_rope(dynamic, 128, 4096, 8192), 128,
                {{0, 1.0}, {1, 0.850994291}, {20, 0.0396764617}, {40, 0.00157422161}, {63, 3.84927328e-05}});
  expect_points(make_rope(config(RopeType::kDynamic, 1e6, 4.5, 0), 48, 256, 1000), 48,
                {{0, 1.0}, {1, 0.501260243}, {10, 0.00100145805}, {23, 1.26315116e-07}});
  EXPECT_EQ(make_rope(dynamic, 128, 4096, 8192).scale, 1.0f);
  const Rope extreme = make_rope(config(RopeType::kDynamic, 1e300, 1e6, 0), 4, 1000, 2147483647);
  for (const float f : extreme.inverse_frequencies) EXPECT_TRUE(std::isfinite(f));
}

TEST(Rope, LongRopeFollowsTheServedContext) {
  RopeConfig longrope = config(RopeType::kLongRope, 1e4, 32.0, 4096);
  for (int i = 0; i < 16; ++i) {
    longrope.short_factors.push_back(1.0f + static_cast<float>(i) / 32.0f);
    longrope.long_factors.push_back(1.5f * static_cast<float>(i + 1));
  }
  const Points short_points = {{0, 1.0}, {1, 0.545300679}, {7, 0.0145910105}, {15, 0.000121074343}};
  const Points long_points = {{0, 0.666666667}, {1, 0.187447108}, {7, 0.00148189951}, {15, 7.40949754e-06}};
  expect_points(make_rope(longrope, 32, 131072, 4096), 32, short_points);
  expect_points(make_rope(longrope, 32, 131072, 4097), 32, long_points);
  expect_points(make_rope(longrope, 32, 131072), 32, long_points);
  EXPECT_NEAR(make_rope(longrope, 32, 131072, 100).scale, 1.1902380714, 1e-7);
  EXPECT_NEAR(make_rope(longrope, 32, 131072).scale, 1.1902380714, 1e-7);
  longrope.attention_factor = 1.25;
  EXPECT_EQ(make_rope(longrope, 32, 131072).scale, 1.25f);
  longrope.attention_factor.reset();
  longrope.factor = 1.0;
  EXPECT_EQ(make_rope(longrope, 32, 4096).scale, 1.0f);
}

/// yarn's inverse frequency in double precision: floor/ceil of the correction range, no clamps that these sizes need.
double yarn_exact(double theta, double factor, double original, int64_t dim, int64_t i) {
  const auto d = static_cast<double>(dim);
  const auto turn = [&](double rotations) {
    return d * std::log(original / (rotations * 2.0 * std::acos(-1.0))) / (2.0 * std::log(theta));
  };
  const double low = std::floor(turn(32.0));
  const double high = std::ceil(turn(1.0));
  const double ramp = std::min(1.0, std::max(0.0, (static_cast<double>(i) - low) / (high - low)));
  const double plain = std::pow(theta, -2.0 * static_cast<double>(i) / d);
  return plain / factor * ramp + plain * (1.0 - ramp);
}

// Past the original 32,768 positions and up to 131,071: sin and cos against double precision. The angle is a product
// of f32 values, as in transformers, so the bound grows with it: a few roundings of 2^-24 each.
TEST(Rope, YarnPastItsOriginalLength) {
  const Rope rope = make_rope(config(RopeType::kYarn, 1e6, 4.0, 32768), 128, 131072);
  std::vector<int32_t> positions = {32767, 32768, 32769, 65535, 131071};
  for (int32_t p = 0; p < 131072; p += 97) positions.push_back(p);
  for (int64_t i = 0; i < 64; ++i) {
    const float inverse = rope.inverse_frequencies[static_cast<size_t>(i)];
    const double exact = yarn_exact(1e6, 4.0, 32768.0, 128, i);
    ASSERT_NEAR(inverse / exact, 1.0, 8 * 0x1p-24) << "index " << i;
    for (const int32_t p : positions) {
      float sin = 0.0f;
      float cos = 0.0f;
      kernels::sin_cos_ref(inverse * static_cast<float>(p), &sin, &cos);
      const double angle = exact * static_cast<double>(p);
      const double bound = 0x1p-23 + angle * 9 * 0x1p-24;
      ASSERT_NEAR(sin, std::sin(angle), bound) << "index " << i << " position " << p;
      ASSERT_NEAR(cos, std::cos(angle), bound) << "index " << i << " position " << p;
    }
  }
}

TEST(Rope, MissingOriginalLengthIsTheContext) {
  const Rope given = make_rope(config(RopeType::kYarn, 1e6, 4.0, 256), 32, 256);
  const Rope absent = make_rope(config(RopeType::kYarn, 1e6, 4.0, 0), 32, 256);
  EXPECT_EQ(given.inverse_frequencies, absent.inverse_frequencies);
}

TEST(Rope, FrequencyFactorsDivide) {
  RopeConfig with = config(RopeType::kDefault, 5e5, 1.0, 0);
  with.freq_factors = {1.0f, 2.0f, 8.0f, 8.0f};
  const Rope plain = make_rope(config(RopeType::kDefault, 5e5, 1.0, 0), 8, 2048);
  const Rope rope = make_rope(with, 8, 2048);
  EXPECT_EQ(rope.inverse_frequencies[0], plain.inverse_frequencies[0]);
  EXPECT_EQ(rope.inverse_frequencies[3], plain.inverse_frequencies[3] / 8.0f);
}

TEST(NaturalLog, MatchesTheLibrary) {
  for (double x = 1e-6; x < 1e9; x *= 1.37)
    EXPECT_NEAR(natural_log(x), std::log(x), 4e-15 * std::fabs(std::log(x)) + 1e-16);
  EXPECT_EQ(natural_log(1.0), 0.0);
}

}  // namespace
}  // namespace lockstep::model
