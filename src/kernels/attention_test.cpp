// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/kernel_cases.h"
#include "kernels/test_tables.h"

namespace lockstep::kernels {
namespace {

constexpr KvDType kDTypes[] = {KvDType::kBF16, KvDType::kF32};

class AttentionTest : public testing::TestWithParam<const KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Tables, AttentionTest, testing::ValuesIn(tables_to_test()), table_name);

void expect_same(const AttendCase& test, const KernelTable& table) {
  const auto index = static_cast<int>(test.dtype);
  const AttendCase::Result ours = test.run(table.attend_segment[index]);
  const AttendCase::Result expected = test.run(ref_table().attend_segment[index]);
  const std::string where = "rows " + std::to_string(test.lengths.size()) + " dim " + std::to_string(test.dim) +
                            " length " + std::to_string(test.lengths[0]);
  ASSERT_TRUE(same_bits(ours.max, expected.max)) << where;
  ASSERT_TRUE(same_bits(ours.sum, expected.sum)) << where;
  ASSERT_TRUE(same_bits(ours.acc, expected.acc)) << where;
}

TEST_P(AttentionTest, EqualsReferenceForAnyRowsDimsAndLengths) {
  for (const KvDType dtype : kDTypes) {
    for (const int64_t dim : {2, 16, 18, 64, 80, 128}) {
      for (int rows = 1; rows <= kMaxQueryRows; rows += dim == 64 ? 1 : 3) {
        for (const int32_t length : {1, 15, 16, 17, 100})
          expect_same(AttendCase(dtype, dim, std::vector<int32_t>(static_cast<size_t>(rows), length), 1), *GetParam());
      }
    }
  }
}

TEST_P(AttentionTest, RowsOfDifferentLengths) {
  for (const KvDType dtype : kDTypes) {
    std::vector<int32_t> ascending;
    for (int32_t r = 0; r < kMaxQueryRows; ++r) ascending.push_back(r + 1);
    expect_same(AttendCase(dtype, 64, ascending, 2), *GetParam());
    for (int32_t& length : ascending) length += 496;  // up to a whole segment
    expect_same(AttendCase(dtype, 128, ascending, 3), *GetParam());
    expect_same(AttendCase(dtype, 48, {512, 1, 33, 512, 64, 2, 300, 17, 511}, 4), *GetParam());
  }
}

TEST_P(AttentionTest, ARowDoesNotDependOnItsNeighbours) {
  const std::vector<int32_t> lengths = {70, 71, 3, 72, 73, 74, 75};
  const AttendCase all(KvDType::kBF16, 64, lengths, 5);
  const AttendCase::Result together = all.run(GetParam()->attend_segment[0]);
  for (size_t row = 0; row < lengths.size(); ++row) {
    AttendCase one = all;
    one.lengths = {lengths[row]};
    one.q.assign(all.q.begin() + static_cast<int64_t>(row) * 64, all.q.begin() + static_cast<int64_t>(row + 1) * 64);
    const AttendCase::Result alone = one.run(GetParam()->attend_segment[0]);
    EXPECT_EQ(alone.max[0], together.max[row]);
    EXPECT_EQ(alone.sum[0], together.sum[row]);
    EXPECT_EQ(0, std::memcmp(alone.acc.data(), together.acc.data() + row * 64, 64 * sizeof(float)));
  }
}

TEST_P(AttentionTest, GarbagePastTheLengthIsNeverUsed) {
  const AttendCase test(KvDType::kF32, 32, {5, 21},
                        6);  // slots past 21 hold NaN, and so do lanes 5.. of row 0's view below
  const AttendCase::Result out = test.run(GetParam()->attend_segment[1]);
  for (size_t i = 0; i < 64; ++i) EXPECT_TRUE(std::isfinite(out.acc[i]));
  EXPECT_EQ(out.acc[64], kCanary);
  EXPECT_EQ(out.max[2], kCanary);
  EXPECT_EQ(out.sum[2], kCanary);
}

TEST_P(AttentionTest, NotFiniteScoresReachTheOutput) {
  AttendCase test(KvDType::kBF16, 64, {40, 40}, 7);
  test.q[64] = std::numeric_limits<float>::quiet_NaN();
  const AttendCase::Result out = test.run(GetParam()->attend_segment[0]);
  for (size_t d = 0; d < 64; ++d) {
    EXPECT_TRUE(std::isfinite(out.acc[d]));
    EXPECT_TRUE(std::isnan(out.acc[64 + d]));
  }
}

TEST_P(AttentionTest, ZeroScoresOfEitherSignHaveMaximumPlusZero) {
  AttendCase test(KvDType::kF32, 16, {20}, 8);
  for (float& q : test.q) q = -0.0f;
  const AttendCase::Result out = test.run(GetParam()->attend_segment[1]);
  EXPECT_EQ(out.max[0], 0.0f);
  EXPECT_FALSE(std::signbit(out.max[0]));
  EXPECT_EQ(out.sum[0], 20.0f);
}

TEST_P(AttentionTest, SegmentsMergeToTheWholeSoftmax) {
  constexpr int64_t kDim = 64;
  const AttendCase a(KvDType::kF32, kDim, {30}, 9);
  AttendCase b(KvDType::kF32, kDim, {30}, 10);
  b.q = a.q;
  float m = -std::numeric_limits<float>::infinity(), l = 0.0f;
  std::vector<float> acc(kDim, 0.0f), out(kDim);
  std::vector<double> expected(kDim, 0.0);
  double total = 0.0;
  for (const AttendCase* part : {&a, static_cast<const AttendCase*>(&b)}) {
    const AttendCase::Result result = part->run(GetParam()->attend_segment[1]);
    GetParam()->merge_segment(&m, &l, acc.data(), result.max[0], result.sum[0], result.acc.data(), kDim);
    for (int64_t p = 0; p < 30; ++p) {
      const auto* k = reinterpret_cast<const float*>(part->k_tiles[static_cast<size_t>(p / 16)].data());
      const auto* v = reinterpret_cast<const float*>(part->v_tiles[static_cast<size_t>(p / 16)].data());
      double score = 0;
      for (int64_t d = 0; d < kDim; ++d)
        score += static_cast<double>(part->q[static_cast<size_t>(d)]) * static_cast<double>(k[d * 16 + p % 16]);
      total += std::exp(score);
      for (int64_t d = 0; d < kDim; ++d)
        expected[static_cast<size_t>(d)] += std::exp(score) * static_cast<double>(v[p % 16 * kDim + d]);
    }
  }
  GetParam()->finish_attention(acc.data(), l, kDim, out.data());
  for (size_t d = 0; d < kDim; ++d) EXPECT_NEAR(static_cast<double>(out[d]), expected[d] / total, 1e-5);
}

TEST_P(AttentionTest, StoreKvRoundsAndKeepsNeighbours) {
  for (const KvDType dtype : kDTypes) {
    for (const int64_t dim : {2, 18, 64}) {
      CaseValues values(11);
      std::vector<float> k = values.floats(dim, -1.0f, 1.0f);
      std::vector<float> v = values.floats(dim, -1e-38f, 1e-38f);  // denormals stay
      v[0] = std::numeric_limits<float>::quiet_NaN();
      const auto bytes = static_cast<size_t>(dim * kTileSlots * kv_dtype_bytes(dtype));
      std::vector<std::byte> ours[2] = {std::vector<std::byte>(bytes, std::byte(7)),
                                        std::vector<std::byte>(bytes, std::byte(7))};
      std::vector<std::byte> expected[2] = {ours[0], ours[1]};
      GetParam()->store_kv[static_cast<int>(dtype)](k.data(), v.data(), dim, ours[0].data(), ours[1].data(), 5);
      ref_table().store_kv[static_cast<int>(dtype)](k.data(), v.data(), dim, expected[0].data(), expected[1].data(), 5);
      EXPECT_EQ(ours[0], expected[0]);
      EXPECT_EQ(ours[1], expected[1]);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
