// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "kernels/kernel_cases.h"
#include "kernels/test_tables.h"

namespace lockstep::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class ElementwiseTest : public testing::TestWithParam<const KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Tables, ElementwiseTest, testing::ValuesIn(tables_to_test()), table_name);

constexpr int64_t kSizes[] = {2, 16, 18, 30, 32, 100, 576, 1000};

/// Values of every magnitude, with the special ones.
std::vector<float> hostile(int64_t n, uint32_t salt) {
  CaseValues values(salt);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = std::bit_cast<float>(values.word());
  const float special[] = {0.0f, -0.0f, kInf, -kInf, kNan, 0x1p-149f, -0x1p-140f, 88.8f, -87.4f, -0.0f};
  for (size_t i = 0; i < out.size(); i += 7) out[i] = special[(i / 7) % std::size(special)];
  return out;
}

using Run = std::vector<float> (*)(const KernelTable&, const std::vector<float>& x, const std::vector<float>& y);

void expect_same(const KernelTable& table, Run run) {
  for (const int64_t n : kSizes) {
    CaseValues values(static_cast<uint32_t>(n));
    const std::vector<float> x = values.floats(n, -9.0f, 9.0f);
    const std::vector<float> y = values.floats(n, -2.0f, 2.0f);
    ASSERT_TRUE(same_bits(run(table, x, y), run(ref_table(), x, y))) << n;
    const std::vector<float> bad = hostile(n, 3);
    ASSERT_TRUE(same_bits(run(table, bad, y), run(ref_table(), bad, y))) << n;
    ASSERT_TRUE(same_bits(run(table, x, bad), run(ref_table(), x, bad))) << n;
  }
}

/// n values and 16 canaries.
std::vector<float> output(const std::vector<float>& x) { return std::vector<float>(x.size() + 16, kCanary); }
std::vector<float> with_canaries(std::vector<float> x) {
  x.resize(x.size() + 16, kCanary);
  return x;
}

TEST_P(ElementwiseTest, EqualsReferenceInBits) {
  expect_same(*GetParam(), [](const KernelTable& t, const auto& x, const auto& y) {
    auto out = output(x);
    t.silu_mul(x.data(), y.data(), std::ssize(x), out.data());
    return out;
  });
  expect_same(*GetParam(), [](const KernelTable& t, const auto& x, const auto&) {
    auto out = output(x);
    t.exp_array(x.data(), std::ssize(x), out.data());
    return out;
  });
  expect_same(*GetParam(), [](const KernelTable& t, const auto& x, const auto& y) {
    auto out = output(x);
    t.rms_norm(x.data(), y.data(), 1e-5f, std::ssize(x), out.data());
    return out;
  });
  expect_same(*GetParam(), [](const KernelTable& t, const auto& x, const auto& y) {
    auto out = with_canaries(x);
    t.add(out.data(), y.data(), std::ssize(x));
    return out;
  });
  expect_same(*GetParam(), [](const KernelTable& t, const auto& x, const auto& y) {
    auto out = with_canaries(x);
    t.rope(out.data(), y.data(), y.data() + y.size() / 2, std::ssize(x));
    return out;
  });
  expect_same(*GetParam(), [](const KernelTable& t, const auto& x, const auto&) {
    return std::vector{t.sum_exp(x.data(), std::ssize(x), 1.5f)};
  });
  expect_same(*GetParam(), [](const KernelTable& t, const auto& x, const auto& y) {
    auto out = with_canaries(x);
    float m = 0.25f, l = 3.0f;
    t.merge_segment(&m, &l, out.data(), 1.25f, 2.0f, y.data(), std::ssize(x));
    out.insert(out.end(), {m, l});
    return out;
  });
  expect_same(*GetParam(), [](const KernelTable& t, const auto& x, const auto&) {
    auto out = output(x);
    t.finish_attention(x.data(), 0.3f, std::ssize(x), out.data());
    return out;
  });
}

TEST_P(ElementwiseTest, OutputsMayBeInputs) {
  CaseValues values(4);
  const std::vector<float> x = values.floats(50, -3.0f, 3.0f), y = values.floats(50, -3.0f, 3.0f);
  std::vector<float> apart(50), same = x;
  GetParam()->rms_norm(x.data(), y.data(), 1e-6f, 50, apart.data());
  GetParam()->rms_norm(same.data(), y.data(), 1e-6f, 50, same.data());
  EXPECT_EQ(apart, same);
  GetParam()->silu_mul(x.data(), y.data(), 50, apart.data());
  same = x;
  GetParam()->silu_mul(same.data(), y.data(), 50, same.data());
  EXPECT_EQ(apart, same);
}

TEST_P(ElementwiseTest, ValuesAreRight) {
  CaseValues values(5);
  const std::vector<float> x = values.floats(70, -3.0f, 3.0f), y = values.floats(70, -3.0f, 3.0f);
  std::vector<float> out(70);
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  GetParam()->rms_norm(x.data(), y.data(), 1e-6f, 70, out.data());
  for (size_t i = 0; i < 70; ++i) {
    EXPECT_NEAR(static_cast<double>(out[i]),
                static_cast<double>(x[i]) / std::sqrt(squares / 70 + 1e-6) * static_cast<double>(y[i]), 2e-6);
  }
  GetParam()->silu_mul(x.data(), y.data(), 70, out.data());
  for (size_t i = 0; i < 70; ++i) {
    EXPECT_NEAR(static_cast<double>(out[i]),
                static_cast<double>(x[i]) / (1 + std::exp(-static_cast<double>(x[i]))) * static_cast<double>(y[i]),
                2e-6);
  }
  float pair[2] = {3.0f, 4.0f};
  const float cosine = 0.6f, sine = 0.8f;
  GetParam()->rope(pair, &cosine, &sine, 2);
  EXPECT_FLOAT_EQ(pair[0], 3.0f * 0.6f - 4.0f * 0.8f);
  EXPECT_FLOAT_EQ(pair[1], 4.0f * 0.6f + 3.0f * 0.8f);
}

TEST_P(ElementwiseTest, ArgmaxTakesTheSmallestIndexAndSeesNonFinites) {
  for (const int64_t n : {1, 5, 16, 17, 40, 1000}) {
    CaseValues values(static_cast<uint32_t>(n));
    std::vector<float> x = values.floats(n, -5.0f, -1.0f);
    for (int64_t at = 0; at < n; at += n / 5 + 1) {
      std::vector<float> y = x;
      y[static_cast<size_t>(at)] = y[static_cast<size_t>(n - 1)] = -0.5f;
      const ArgMax best = GetParam()->argmax(y.data(), n);
      EXPECT_EQ(best.index, at);
      EXPECT_EQ(best.value, -0.5f);
      EXPECT_TRUE(best.finite);
      for (const float bad : {kNan, kInf, -kInf}) {
        y[static_cast<size_t>(at)] = bad;
        EXPECT_FALSE(GetParam()->argmax(y.data(), n).finite) << n << " " << at << " " << bad;
      }
    }
    std::vector<float> zeros(static_cast<size_t>(n), -0.0f);
    zeros.back() = 0.0f;
    EXPECT_EQ(GetParam()->argmax(zeros.data(), n).index, 0);
  }
}

struct Quantized {
  std::vector<int8_t> q;
  std::vector<float> scale;
  std::vector<int32_t> sum;
  bool finite;
};
Quantized quantize(const KernelTable& table, const std::vector<float>& x) {
  const auto groups = static_cast<size_t>(num_groups(std::ssize(x)));
  Quantized out{std::vector<int8_t>(groups * kGroup + 1, 99), std::vector<float>(groups + 1, kCanary),
                std::vector<int32_t>(groups + 1, 99), true};
  out.finite = table.quantize_g32(x.data(), std::ssize(x), out.q.data(), out.scale.data(), out.sum.data());
  return out;
}

TEST_P(ElementwiseTest, QuantizeEqualsReference) {
  for (const int64_t n : {1, 15, 16, 17, 31, 32, 33, 48, 112, 576, 1000}) {
    for (const float range : {1.0f, 1e30f, 1e-30f, 1e-36f, 1e-40f}) {
      CaseValues values(static_cast<uint32_t>(n));
      std::vector<float> x = values.floats(n, -range, range);
      const Quantized ours = quantize(*GetParam(), x), expected = quantize(ref_table(), x);
      EXPECT_EQ(ours.q, expected.q);
      EXPECT_TRUE(same_bits(ours.scale, expected.scale));
      EXPECT_EQ(ours.sum, expected.sum);
      EXPECT_TRUE(ours.finite);
      EXPECT_EQ(ours.q.back(), 99);
      EXPECT_EQ(ours.sum.back(), 99);
      for (const float bad : {kNan, kInf, -kInf}) {
        std::vector<float> y = x;
        y[static_cast<size_t>(n / 2)] = bad;
        const Quantized broken = quantize(*GetParam(), y);
        EXPECT_FALSE(broken.finite);
        EXPECT_EQ(broken.q, quantize(ref_table(), y).q);
      }
    }
  }
}

TEST_P(ElementwiseTest, QuantizeIsRight) {
  std::vector<float> x(40, 0.0f);
  x[0] = -254.0f;
  x[1] = 3.0f;   // 1.5 -> 2
  x[2] = 5.0f;   // 2.5 -> 2
  x[3] = -1.0f;  // -0.5 -> 0
  const Quantized out = quantize(*GetParam(), x);
  EXPECT_EQ(out.scale[0], 2.0f);
  EXPECT_EQ(out.q[0], -127);
  EXPECT_EQ(out.q[1], 2);
  EXPECT_EQ(out.q[2], 2);
  EXPECT_EQ(out.q[3], 0);
  EXPECT_EQ(out.sum[0], -123);
  EXPECT_EQ(out.scale[1], 0.0f);
  EXPECT_EQ(out.sum[1], 0);
}

}  // namespace
}  // namespace lockstep::kernels
