// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/half.h"
#include "kernels/isa_tables.h"
#include "kernels/kernel_cases.h"
#include "kernels/pack.h"
#include "kernels/test_tables.h"

namespace lockstep::kernels {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<std::byte> packed(WeightFormat format, const std::vector<float>& w, int64_t n, int64_t k) {
  std::vector<std::byte> out(static_cast<size_t>(packed_bytes(format, n, k)) + 1, std::byte(0x55));
  pack_matrix(format, SourceType::kF32, reinterpret_cast<const std::byte*>(w.data()), 4 * k, n, k, out.data());
  EXPECT_EQ(out.back(), std::byte(0x55));
  return out;
}

std::vector<float> unpacked(WeightFormat format, const std::vector<std::byte>& panels, int64_t k, int64_t row) {
  std::vector<float> out(static_cast<size_t>(k));
  unpack_row(format, panels.data(), k, row, out.data());
  return out;
}

TEST(PackQuantizeTest, ChannelsRoundToNearestEvenOfAmaxOver127) {
  for (const WeightFormat format : {WeightFormat::kW8A16, WeightFormat::kW8A8}) {
    for (const int64_t k : {1, 3, 33, 64, 577}) {
      for (const int64_t n : {1, 16, 19}) {
        CaseValues values(4);
        const std::vector<float> w = values.floats(n * k, -0.3f, 0.2f);
        const std::vector<std::byte> panels = packed(format, w, n, k);
        for (int64_t row = 0; row < n; ++row) {
          const auto first = w.begin() + row * k;
          float amax = 0;
          std::for_each(first, first + k, [&](float x) { amax = std::max(amax, std::abs(x)); });
          const std::vector<float> ours = unpacked(format, panels, k, row);
          for (int64_t i = 0; i < k; ++i) {
            EXPECT_EQ(ours[static_cast<size_t>(i)], amax / 127.0f * std::nearbyint(first[i] * (127.0f / amax)));
          }
        }
      }
    }
  }
}

TEST(PackQuantizeTest, Q4_1IsWithinHalfAStep) {
  for (const int64_t k : {1, 31, 48, 96}) {
    CaseValues values(5);
    const std::vector<float> w = values.floats(17 * k, -0.3f, 0.2f);
    const std::vector<std::byte> panels = packed(WeightFormat::kQ4_1, w, 17, k);
    for (int64_t row = 0; row < 17; ++row) {
      const std::vector<float> ours = unpacked(WeightFormat::kQ4_1, panels, k, row);
      for (int64_t i = 0; i < k; ++i) {
        const auto group = w.begin() + row * k + i / kGroup * kGroup;
        const auto [low, high] = std::minmax_element(group, group + std::min(kGroup, k - i / kGroup * kGroup));
        // Half a step, and what d and m lose as f16.
        const float bound = (*high - *low) / 15.0f * 0.51f + 0.3f * 0x1p-10f;
        EXPECT_NEAR(ours[static_cast<size_t>(i)], w[static_cast<size_t>(row * k + i)], bound);
      }
    }
  }
}

TEST(PackQuantizeTest, NonFiniteRowsStayNonFiniteAndTinyOnesAreZero) {
  for (const float bad : {kNaN, kInf, -kInf}) {
    std::vector<float> w(2 * 40, 0.5f);
    w[45] = bad;
    for (const WeightFormat format : {WeightFormat::kW8A16, WeightFormat::kW8A8, WeightFormat::kQ4_1}) {
      const std::vector<std::byte> panels = packed(format, w, 2, 40);
      EXPECT_EQ(unpacked(format, panels, 40, 0)[0], 0.5f);
      EXPECT_TRUE(std::isnan(unpacked(format, panels, 40, 1)[0]));
    }
  }
  const std::vector<float> tiny(40, 1e-38f);
  for (const WeightFormat format : {WeightFormat::kW8A16, WeightFormat::kW8A8, WeightFormat::kQ4_1}) {
    EXPECT_EQ(unpacked(format, packed(format, tiny, 1, 40), 40, 0)[7], 0.0f);
  }
}

TEST(PackQuantizeTest, BlocksAreRoundedAgainOnlyToEightBits) {
  for (const SourceType source : {SourceType::kQ8_0, SourceType::kQ4_0, SourceType::kQ4_1}) {
    EXPECT_TRUE(can_pack(WeightFormat::kW8A16, source));
    EXPECT_TRUE(can_pack(WeightFormat::kW8A8, source));
    EXPECT_EQ(can_pack(WeightFormat::kQ4_1, source), source == SourceType::kQ4_1);
  }
  std::vector<std::byte> block(34, std::byte(0));
  const uint16_t half = f32_to_f16(0.5f);
  std::memcpy(block.data(), &half, 2);
  block[2] = std::byte(127);
  block[3] = std::byte(0xff);
  std::vector<std::byte> out(static_cast<size_t>(packed_bytes(WeightFormat::kW8A8, 1, 32)));
  pack_matrix(WeightFormat::kW8A8, SourceType::kQ8_0, block.data(), 34, 1, 32, out.data());
  EXPECT_EQ(unpacked(WeightFormat::kW8A8, out, 32, 0)[0], 63.5f);
  EXPECT_EQ(unpacked(WeightFormat::kW8A8, out, 32, 0)[1], -0.5f);
}

class ActivationsTest : public testing::TestWithParam<const KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Tables, ActivationsTest, testing::ValuesIn(fast_tables_to_test()), table_name);

struct Quantized {
  std::vector<int8_t> q8;
  std::vector<int16_t> q16;
  std::vector<float> scale8, scale16;
  std::vector<int32_t> sum;
  bool finite8 = false, finite16 = false;
};
Quantized quantize(const KernelTable& table, const std::vector<float>& x) {
  const int64_t k = std::ssize(x);
  const auto groups = static_cast<size_t>(num_channel_groups(k));
  Quantized out;
  out.q8.assign(groups * kChannelGroup + 1, 99);
  out.q16.assign(groups * kChannelGroup + 1, 99);
  out.scale8.assign(groups + 1, kCanary);
  out.scale16.assign(2, kCanary);
  out.sum.assign(groups + 1, 99);
  out.finite8 = table.quantize_g64(x.data(), k, out.q8.data(), out.scale8.data(), out.sum.data());
  out.finite16 = table.quantize_row16(x.data(), k, out.q16.data(), out.scale16.data());
  return out;
}

TEST_P(ActivationsTest, EqualReference) {
  for (const int64_t n : {1, 15, 16, 17, 33, 48, 63, 64, 65, 112, 576, 1000}) {
    for (const float range : {1.0f, 1e30f, 1e-30f, 1e-35f, 1e-36f, 1e-40f}) {
      std::vector<float> x = CaseValues(static_cast<uint32_t>(n)).floats(n, -range, range);
      for (const float middle : {x[0], kNaN, kInf, -kInf}) {
        x[static_cast<size_t>(n / 2)] = middle;
        const Quantized ours = quantize(*GetParam(), x), expected = quantize(ref_table(), x);
        EXPECT_EQ(ours.q8, expected.q8);
        EXPECT_EQ(ours.q16, expected.q16);
        EXPECT_TRUE(same_bits(ours.scale8, expected.scale8));
        EXPECT_TRUE(same_bits(ours.scale16, expected.scale16));
        EXPECT_EQ(ours.sum, expected.sum);
        EXPECT_EQ(ours.finite8, std::isfinite(middle));
        EXPECT_EQ(ours.finite16, std::isfinite(middle));
        EXPECT_EQ(ours.q8.back(), 99);
        EXPECT_EQ(ours.q16.back(), 99);
      }
    }
  }
}

TEST_P(ActivationsTest, AreRight) {
  std::vector<float> x(70, 0.0f);
  x[1] = -4094.0f;
  x[2] = 3.0f;  // 1.5 -> 2
  x[69] = 5.0f;
  const Quantized out = quantize(*GetParam(), x);
  EXPECT_EQ(out.scale16[0], 2.0f);
  EXPECT_EQ(out.q16[2], -2047);  // four lie as 0, 2, 1, 3
  EXPECT_EQ(out.q16[1], 2);
  EXPECT_EQ(out.q16[68 + 2], 2);  // 2.5 -> 2
  EXPECT_EQ(out.q8[1], -127);
  EXPECT_EQ(out.q8[69], 127);
  EXPECT_EQ(out.scale8[1], 5.0f / 127.0f);
  EXPECT_EQ(out.sum[0], -127);
  EXPECT_EQ(out.sum[1], 127);
}

}  // namespace
}  // namespace lockstep::kernels
