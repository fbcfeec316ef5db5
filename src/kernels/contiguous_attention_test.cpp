// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "kernels/kernel_cases.h"
#include "kernels/test_tables.h"

namespace lockstep::kernels {
namespace {

class ContiguousAttentionTest : public testing::TestWithParam<const KernelTable*> {};
INSTANTIATE_TEST_SUITE_P(Tables, ContiguousAttentionTest, testing::ValuesIn(tables_to_test()), table_name);

/// The tiles of a case as rows [position][dim].
struct Rows {
  explicit Rows(const AttendCase& test) {
    const auto word = static_cast<size_t>(kv_dtype_bytes(test.dtype));
    const auto dim = static_cast<size_t>(test.dim);
    for (const auto& tile : test.v_tiles) v.insert(v.end(), tile.begin(), tile.end());
    k.resize(v.size());
    for (size_t p = 0; p < test.k_tiles.size() * 16; ++p) {
      for (size_t d = 0; d < dim; ++d)
        std::memcpy(k.data() + (p * dim + d) * word, test.k_tiles[p / 16].data() + (d * 16 + p % 16) * word, word);
    }
  }
  std::vector<std::byte> k, v;
};

AttendCase::Result run(const AttendCase& test, const KernelTable& table) {
  const Rows rows(test);
  const size_t queries = test.lengths.size();
  AttendCase::Result out{std::vector<float>(queries + 1, kCanary), std::vector<float>(queries + 1, kCanary),
                         std::vector<float>(queries * static_cast<size_t>(test.dim) + 16, kCanary)};
  std::vector<float> scratch(static_cast<size_t>(kMaxQueryRows * kSegmentPositions));
  std::vector<std::byte> tiles(static_cast<size_t>(kContiguousTiles * kTileSlots * test.dim * 4));
  AttendContiguousArgs args = {};
  args.segment.rows = static_cast<int64_t>(queries);
  args.segment.dim = test.dim;
  args.segment.q = test.q.data();
  args.segment.q_stride = test.dim;
  args.segment.lengths = test.lengths.data();
  args.segment.scratch = scratch.data();
  args.segment.out_max = out.max.data();
  args.segment.out_sum = out.sum.data();
  args.segment.out_acc = out.acc.data();
  args.k = rows.k.data();
  args.v = rows.v.data();
  args.tiles = tiles.data();
  table.attend_contiguous[static_cast<int>(test.dtype)](args);
  return out;
}

void expect_same(const AttendCase& test, const KernelTable& table) {
  const AttendCase::Result expected = test.run(ref_table().attend_segment[static_cast<int>(test.dtype)]);
  const AttendCase::Result ours = run(test, table);
  const std::string where = "rows " + std::to_string(test.lengths.size()) + " dim " + std::to_string(test.dim) +
                            " length " + std::to_string(test.lengths[0]);
  ASSERT_TRUE(same_bits(ours.max, expected.max)) << where;
  ASSERT_TRUE(same_bits(ours.sum, expected.sum)) << where;
  ASSERT_TRUE(same_bits(ours.acc, expected.acc)) << where;
}

TEST_P(ContiguousAttentionTest, EqualsTheTiledReference) {
  for (const KvDType dtype : {KvDType::kBF16, KvDType::kF32}) {
    for (const int64_t dim : {2, 16, 18, 30, 64, 128}) {
      for (const size_t rows : {1u, 2u, 3u, 5u, 7u, 16u}) {
        for (const int32_t length : {1, 15, 16, 17, 65, 127})
          expect_same(AttendCase(dtype, dim, std::vector<int32_t>(rows, length), 1), *GetParam());
      }
    }
    expect_same(AttendCase(dtype, 48, {512, 1, 33, 512, 64, 2, 300, 17, 511}, 4), *GetParam());
    expect_same(AttendCase(dtype, 64, {511}, 5), *GetParam());
  }
}

}  // namespace
}  // namespace lockstep::kernels
