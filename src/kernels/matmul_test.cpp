// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <immintrin.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"
#include "kernels/block_layout.h"
#include "kernels/kernel_cases.h"
#include "kernels/pack.h"
#include "kernels/test_tables.h"

namespace lockstep::kernels {
namespace {

std::vector<WeightFormat> all_formats() {
  std::vector<WeightFormat> out;
  for (int i = 0; i < kNumWeightFormats; ++i) out.push_back(static_cast<WeightFormat>(i));
  return out;
}
std::vector<WeightFormat> integer_formats() {
  std::vector<WeightFormat> out = all_formats();
  std::erase_if(out, [](WeightFormat format) { return activations_of(format) != Activations::kInt8G32; });
  return out;
}

void expect_same(const MatmulCase& test, const KernelTable& table) {
  const int format = static_cast<int>(test.format);
  const std::vector<float> expected = test.run(ref_table().matmul[format]);
  const std::vector<float> ours = test.run(table.matmul[format]);
  ASSERT_TRUE(same_bits(ours, expected)) << to_string(test.format) << " m " << test.m << " n " << test.n << " k "
                                         << test.k;
}

class MatmulTest : public testing::TestWithParam<const KernelTable*> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MatmulTest);
INSTANTIATE_TEST_SUITE_P(Tables, MatmulTest, testing::ValuesIn(fast_tables_to_test()), table_name);

TEST_P(MatmulTest, EqualsReferenceInBitsForOddSizes) {
  for (const WeightFormat format : all_formats()) {
    for (const int64_t n : {1, 15, 16, 17, 40, 100}) {
      for (const int64_t k : {1, 2, 31, 32, 33, 48, 64, 112, 256, 576}) {
        for (int64_t m = 1; m <= 17; m += n == 40 ? 1 : 5)
          expect_same(MatmulCase(format, m, n, k, static_cast<uint32_t>(n * k)), *GetParam());
      }
    }
  }
}

TEST_P(MatmulTest, EqualsReferenceAcrossBlocks) {
  for (const WeightFormat format : all_formats()) {
    expect_same(MatmulCase(format, 101, 49, 1000, 1), *GetParam());  // row, column and k blocks with remainders
    expect_same(MatmulCase(format, 1, 33, 3000, 2), *GetParam());
    expect_same(MatmulCase(format, 5, 80, 1057, 3), *GetParam());
    expect_same(MatmulCase(format, 3, 17, 8192 + 288, 4), *GetParam());  // more groups than a stream's chunk
  }
}

TEST_P(MatmulTest, ExtremeIntegersAreExact) {
  // Largest magnitudes on both sides, where a saturating instruction would show.
  for (const WeightFormat format : {WeightFormat::kQ8G32, WeightFormat::kQ4_0, WeightFormat::kQ4_1}) {
    for (const int64_t m : {1, 4, 12, 40}) {
      for (const int sign : {1, -1}) {
        MatmulCase test(format, m, 32, 64, 5);
        for (auto& q : test.xq) q = static_cast<int8_t>(sign * 127);
        for (auto& sum : test.x_sum) sum = sign * 127 * 32;
        const int64_t scales = panel_bytes(format, kGroup) - (format == WeightFormat::kQ8G32 ? 512 : 256);
        for (const int fill : {0x80, 0x7f, 0xff, 0x00}) {
          for (size_t i = 0; i < test.weights.size(); ++i) {
            const auto in_group = static_cast<int64_t>(i) % panel_bytes(format, kGroup);
            if (in_group < panel_bytes(format, kGroup) - scales) test.weights[i] = std::byte(fill);
          }
          expect_same(test, *GetParam());
        }
      }
    }
  }
}

TEST_P(MatmulTest, ExtremeIntegersOfStoredBlocksAreExact) {
  for (const WeightFormat format : all_formats()) {
    if (!has_block_layout(format)) continue;
    const UnitBytes at = unit_bytes(block_layout(format));
    for (const int64_t m : {1, 4, 12, 40}) {
      for (const int sign : {1, -1}) {
        MatmulCase test(format, m, 32, 256, 5);
        for (auto& q : test.xq) q = static_cast<int8_t>(sign * 127);
        for (auto& sum : test.x_sum) sum = sign * 127 * 32;
        for (const int fill : {0x80, 0x7f, 0xff, 0x00}) {
          for (size_t i = 0; i < test.weights.size(); ++i) {  // codes and integer scales
            if (static_cast<int64_t>(i) % at.unit < at.d) test.weights[i] = std::byte(fill);
          }
          expect_same(test, *GetParam());
        }
      }
    }
  }
}

TEST_P(MatmulTest, ExtremeChannelWeightsAreExact) {
  // Largest magnitudes on both sides, and more elements of k than an int32 holds the products of.
  for (const WeightFormat format : {WeightFormat::kW8A16, WeightFormat::kW8A8}) {
    for (const int64_t k : {64, 8192, 8193, 16500}) {
      for (const int64_t m : {1, 13}) {
        for (const int sign : {1, -1}) {
          MatmulCase test(format, m, 17, k, 5);
          for (auto& q : test.xq16) q = static_cast<int16_t>(sign * 2047);
          for (auto& q : test.xq) q = static_cast<int8_t>(sign * 127);
          for (auto& sum : test.x_sum) sum = sign * 127 * kChannelGroup;
          for (int64_t row = 0; row < m && !test.xq.empty(); ++row) {  // zeros past k, as the quantiser leaves them
            for (int64_t i = k; i < test.xq_stride; ++i) test.xq[static_cast<size_t>(row * test.xq_stride + i)] = 0;
            const int64_t last = (row + 1) * test.group_stride - 1;
            test.x_sum[static_cast<size_t>(last)] -= static_cast<int32_t>(sign * 127 * (test.xq_stride - k));
          }
          for (const int fill : {0x80, 0x7f}) {
            for (int64_t column = 0; column < 17; ++column) {
              std::byte* panel = test.weights.data() + column / kPanelColumns * channel_panel_bytes(k);
              for (int64_t i = 0; i < k; ++i)
                panel[(i / 4 * kPanelColumns + column % kPanelColumns) * 4 + i % 4] = std::byte(fill);
            }
            expect_same(test, *GetParam());
          }
        }
      }
    }
  }
}

TEST_P(MatmulTest, DenormalsInfinitiesAndNaNs) {
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16}) {
    for (const int64_t m : {2, 9}) {
      MatmulCase test(format, m, 24, 40, 6);
      for (size_t i = 0; i < test.x.size(); i += 3) test.x[i] *= 0x1p-130f;
      test.x[7] = std::numeric_limits<float>::infinity();
      test.x[50] = std::numeric_limits<float>::quiet_NaN();
      for (size_t i = 0; i + 1 < test.weights.size(); i += 14) {
        test.weights[i] = std::byte(1);  // small bf16 and f16 numbers: denormal
        test.weights[i + 1] = std::byte(0);
      }
      expect_same(test, *GetParam());
    }
  }
}

TEST_P(MatmulTest, Bf16DotFlushesDenormalsAndSpreadsNaNs) {
  // Products and sums around 2^-126, where flushing inputs and results to zero shows, and the caller's MXCSR is kept.
  CaseValues values(11);
  for (const int64_t m : {1, 5, 14}) {
    MatmulCase test(WeightFormat::kBF16Dot, m, 40, 75, 6);
    auto* w = reinterpret_cast<uint16_t*>(test.weights.data());
    for (size_t i = 0; i < test.weights.size() / 2; ++i) {
      if (w[i] != 0) w[i] = static_cast<uint16_t>((w[i] & 0x807f) | (60u + values.word() % 8) << 7);
    }
    for (uint16_t& x : test.xb16) {
      const uint32_t pick = values.word() % 16;
      if (x != 0) x = static_cast<uint16_t>((x & 0x807f) | (pick < 2 ? 0u : 56u + pick % 12) << 7);
    }
    const unsigned before = _mm_getcsr();
    expect_same(test, *GetParam());
    EXPECT_EQ(_mm_getcsr() & 0x8040u, before & 0x8040u);
    test.xb16[3] = 0x7f80;
    if (m > 1) test.xb16[static_cast<size_t>(test.xq_stride) + 8] = 0x7fc0;
    expect_same(test, *GetParam());
  }
}

TEST_P(MatmulTest, Bf16RowsAreRoundedAsTheReference) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float largest = std::numeric_limits<float>::max();  // rounds to infinity
  for (const int64_t k : {1, 16, 63, 64, 65, 130}) {
    for (const float special : {0.0f, -0.0f, 0x1p-130f, 0x1.01p0f, 0x1.03p0f, 0x1.fep127f, largest, infinity, -infinity,
                                std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x = CaseValues(static_cast<uint32_t>(k)).floats(k, -3.0f, 3.0f);
      x[static_cast<size_t>(k - 1)] = special;
      std::vector<uint16_t> ours(static_cast<size_t>(num_channel_groups(k) * kChannelGroup), 0x5555), expected = ours;
      const bool finite = GetParam()->round_row_bf16(x.data(), k, ours.data());
      EXPECT_EQ(finite, ref_table().round_row_bf16(x.data(), k, expected.data()));
      EXPECT_EQ(finite, std::abs(special) < 0x1.ffp127f) << special;
      EXPECT_EQ(ours, expected) << "k " << k << " " << special;
    }
  }
}

TEST(MatmulReferenceTest, Bf16DotAddsTheOddProductFirst) {
  // 2^24 + 1 is 2^24 in f32, so the order of the second pair shows; denormal inputs and results are zeros.
  MatmulCase test(WeightFormat::kBF16Dot, 1, 1, 4, 1);
  auto* w = reinterpret_cast<uint16_t*>(test.weights.data());
  const auto dot = [&](const std::vector<float>& x, const std::vector<float>& weights) {
    for (size_t k = 0; k < 4; ++k) {
      test.xb16[k] = f32_to_bf16(x[k]);
      w[k / 2 * 2 * kPanelColumns + k % 2] = f32_to_bf16(weights[k]);
    }
    return test.run(ref_table().matmul[static_cast<int>(WeightFormat::kBF16Dot)])[0];
  };
  EXPECT_EQ(dot({0x1p12f, 0, 0x1p12f, 1}, {0x1p12f, 0, -0x1p12f, 1}), 0.0f);
  EXPECT_EQ(dot({0x1p12f, 0, 1, 0x1p12f}, {0x1p12f, 0, 1, -0x1p12f}), 1.0f);
  EXPECT_EQ(dot({1, 0x1p-64f, 0, 0}, {0x1p-126f, 0x1p-64f, 0, 0}), 0x1p-126f);
  EXPECT_EQ(dot({1, 0, 0, 0}, {0x1p-127f, 0, 0, 0}), 0.0f);
}

TEST(MatmulReferenceTest, IsCloseToDoublePrecision) {
  const MatmulCase test(WeightFormat::kBF16, 3, 20, 577, 8);
  const std::vector<float> out = test.run(ref_table().matmul[static_cast<int>(WeightFormat::kBF16)]);
  std::vector<float> w(static_cast<size_t>(test.k));
  for (int64_t column = 0; column < test.n; ++column) {
    unpack_row(test.format, test.weights.data(), test.k, column, w.data());
    for (int64_t row = 0; row < test.m; ++row) {
      double expected = 0, magnitude = 0;
      for (int64_t k = 0; k < test.k; ++k) {
        const double product = static_cast<double>(test.x[static_cast<size_t>(row * test.k + k)]) *
                               static_cast<double>(w[static_cast<size_t>(k)]);
        expected += product;
        magnitude += std::abs(product);
      }
      const double bound = static_cast<double>(test.k) * 0x1p-24 * magnitude;
      EXPECT_NEAR(static_cast<double>(out[static_cast<size_t>(row * test.out_stride() + column)]), expected, bound);
    }
  }
}

TEST(MatmulReferenceTest, Int8IsCloseToDoublePrecisionOfDequantisedValues) {
  for (const WeightFormat format : integer_formats()) {
    const MatmulCase test(format, 2, 20, 112, 9);
    const std::vector<float> out = test.run(ref_table().matmul[static_cast<int>(format)]);
    std::vector<float> w(static_cast<size_t>(test.k));
    for (int64_t column = 0; column < test.n; ++column) {
      unpack_row(format, test.weights.data(), test.k, column, w.data());
      for (int64_t row = 0; row < test.m; ++row) {
        double expected = 0, magnitude = 0;
        for (int64_t k = 0; k < test.k; ++k) {
          const auto at = static_cast<size_t>(row * num_groups(test.k) * kGroup + k);
          const double x = static_cast<double>(test.x_scale[at / kGroup]) * test.xq[at];
          expected += x * static_cast<double>(w[static_cast<size_t>(k)]);
          magnitude += std::abs(x * static_cast<double>(w[static_cast<size_t>(k)]));
        }
        EXPECT_NEAR(static_cast<double>(out[static_cast<size_t>(row * test.out_stride() + column)]), expected,
                    1e-5 * magnitude);
      }
    }
  }
}

TEST(MatmulReferenceTest, ChannelFormatsAreCloseToDoublePrecision) {
  for (const WeightFormat format : {WeightFormat::kW8A16, WeightFormat::kW8A8}) {
    for (const int64_t k : {112, 9000}) {
      const MatmulCase test(format, 2, 20, k, 9);
      const std::vector<float> out = test.run(ref_table().matmul[static_cast<int>(format)]);
      std::vector<float> w(static_cast<size_t>(k));
      for (int64_t column = 0; column < test.n; ++column) {
        unpack_row(format, test.weights.data(), k, column, w.data());
        for (int64_t row = 0; row < test.m; ++row) {
          double expected = 0, bound = 0;
          for (int64_t i = 0; i < k; ++i) {
            const double x = static_cast<double>(test.x[static_cast<size_t>(row * k + i)]);
            expected += x * static_cast<double>(w[static_cast<size_t>(i)]);
            bound += std::abs(static_cast<double>(w[static_cast<size_t>(i)]));
          }
          // An activation is off by half a step at most: 2/2047/2 or 2/127/2.
          bound *= format == WeightFormat::kW8A16 ? 1.01 / 2047 : 1.01 / 127;
          EXPECT_NEAR(static_cast<double>(out[static_cast<size_t>(row * test.out_stride() + column)]), expected, bound);
        }
      }
    }
  }
}

TEST(MatmulReferenceTest, WritesOnlyItsOutputs) {
  for (const WeightFormat format : all_formats()) {
    const MatmulCase test(format, 2, 17, 33, 4);
    const std::vector<float> out = test.run(ref_table().matmul[static_cast<int>(format)]);
    for (int64_t i = 0; i < std::ssize(out); ++i)
      EXPECT_EQ(i % test.out_stride() >= test.n, out[static_cast<size_t>(i)] == kCanary) << i;
  }
}

}  // namespace
}  // namespace lockstep::kernels
