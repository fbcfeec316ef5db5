// SPDX-License-Identifier: Apache-2.0
#include "kernels/pack.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/half.h"
#include "kernels/kernel_cases.h"
#include "kernels/pack_blocks.h"

namespace lockstep::kernels {
namespace {

constexpr SourceType kSources[] = {SourceType::kF32,  SourceType::kF16,    SourceType::kBF16,   SourceType::kQ8_0,
                                   SourceType::kQ4_0, SourceType::kQ4_1,   SourceType::kQ5_0,   SourceType::kQ5_1,
                                   SourceType::kQ2_K, SourceType::kQ3_K,   SourceType::kQ4_K,   SourceType::kQ5_K,
                                   SourceType::kQ6_K, SourceType::kIQ4_NL, SourceType::kIQ4_XS, SourceType::kI8Channel};
constexpr WeightFormat kFormats[] = {
    WeightFormat::kF32,  WeightFormat::kF16,  WeightFormat::kBF16, WeightFormat::kQ8G32,  WeightFormat::kQ4_0,
    WeightFormat::kQ4_1, WeightFormat::kQ5_0, WeightFormat::kQ5_1, WeightFormat::kQ2_K,   WeightFormat::kQ3_K,
    WeightFormat::kQ4_K, WeightFormat::kQ5_K, WeightFormat::kQ6_K, WeightFormat::kIQ4_NL, WeightFormat::kIQ4_XS};

bool is_blocks(SourceType source) { return source_block_elements(source) > 1; }

/// n rows of random bytes that are finite in every type: exponents are kept small.
std::vector<std::byte> random_rows(SourceType source, int64_t n, int64_t k) {
  CaseValues values(9);
  std::vector<std::byte> rows(static_cast<size_t>(n * source_row_bytes(source, k)));
  for (std::byte& b : rows) b = std::byte(values.word() & 0xffu);
  const int64_t elements = source_block_elements(source);
  for (int64_t i = 0; i < n * (k / elements); ++i) {
    std::byte* at = rows.data() + i * source_row_bytes(source, elements);
    if (source == SourceType::kF32) at[3] &= std::byte(0xbf);
    if (source == SourceType::kBF16 || source == SourceType::kF16) at[1] &= std::byte(0xbf);
    if (source == SourceType::kI8Channel && i % k == 0)
      rows[static_cast<size_t>(i / k * (k + 4) + 3)] &= std::byte(0xbf);
    if (!is_blocks(source)) continue;
    at[scale_offsets(source).d + 1] &= std::byte(0xbf);
    at[scale_offsets(source).m + 1] &= std::byte(0xbf);
  }
  return rows;
}

float rounded_to(WeightFormat format, float x) {
  if (format == WeightFormat::kF16) return f16_to_f32(f32_to_f16(x));
  if (format == WeightFormat::kBF16) return bf16_to_f32(f32_to_bf16(x));
  return x;
}

TEST(PackTest, UnpackedRowsAreTheSourceRowsRounded) {
  for (const SourceType source : kSources) {
    for (const WeightFormat format : kFormats) {
      const bool rounds_to_blocks = format >= WeightFormat::kQ8G32 && !is_blocks(source);  // pack_quantize_test.cpp
      if (!can_pack(format, source) || rounds_to_blocks) continue;
      for (const int64_t n : {1, 16, 19}) {
        for (const int64_t k : {1, 33, 64, 96, 512, 577}) {
          if (k % source_block_elements(source) != 0) continue;
          const std::vector<std::byte> rows = random_rows(source, n, k);
          std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(format, n, k)) + 8, std::byte(0x55));
          pack_matrix(format, source, rows.data(), source_row_bytes(source, k), n, k, packed.data());
          for (size_t i = packed.size() - 8; i < packed.size(); ++i) EXPECT_EQ(packed[i], std::byte(0x55));
          std::vector<float> expected(static_cast<size_t>(k)), ours(static_cast<size_t>(k));
          for (int64_t row = 0; row < n; ++row) {
            dequantize_row(source, rows.data() + row * source_row_bytes(source, k), k, expected.data());
            for (float& x : expected) x = rounded_to(format, x);
            unpack_row(format, packed.data(), k, row, ours.data());
            ASSERT_TRUE(same_bits(ours, expected)) << to_string(format) << " n " << n << " k " << k << " row " << row;
          }
        }
      }
    }
  }
}

TEST(PackTest, MissingRowsAndElementsAreZeros) {
  for (const WeightFormat format : kFormats) {
    const SourceType real = static_cast<SourceType>(format);  // the two lists name the same types in one order
    const int64_t k = is_blocks(real) ? 256 : 33;
    const std::vector<std::byte> rows = random_rows(real, 3, k);
    std::vector<std::byte> packed(static_cast<size_t>(panel_bytes(format, k)), std::byte(0x77));
    const std::byte* pointers[3];
    for (int i = 0; i < 3; ++i) pointers[i] = rows.data() + i * source_row_bytes(real, k);
    pack_panel(format, real, pointers, 3, k, packed.data());
    std::vector<float> row(static_cast<size_t>(k));
    for (int64_t column = 3; column < kPanelColumns; ++column) {
      unpack_row(format, packed.data(), k, column, row.data());
      for (const float x : row) EXPECT_EQ(x, 0.0f);  // or -0 where d is 0 and code 0 stands for a negative value
    }
  }
}

TEST(PackTest, Int8ChannelsKeepTheirScaleAndWeights) {
  for (const WeightFormat format : {WeightFormat::kW8A16, WeightFormat::kW8A8}) {
    for (const int64_t k : {1, 4, 63, 130}) {
      for (const int64_t n : {1, 16, 19}) {
        std::vector<std::byte> rows = random_rows(SourceType::kI8Channel, n, k);
        rows[4] = std::byte(0x80);  // -128
        std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(format, n, k)));
        pack_matrix(format, SourceType::kI8Channel, rows.data(), k + 4, n, k, packed.data());
        std::vector<float> expected(static_cast<size_t>(k)), ours(static_cast<size_t>(k));
        for (int64_t row = 0; row < n; ++row) {
          dequantize_row(SourceType::kI8Channel, rows.data() + row * (k + 4), k, expected.data());
          unpack_row(format, packed.data(), k, row, ours.data());
          ASSERT_TRUE(same_bits(ours, expected)) << to_string(format) << " n " << n << " k " << k << " row " << row;
        }
        float scale;
        std::memcpy(&scale, rows.data(), sizeof scale);
        unpack_row(format, packed.data(), k, 0, ours.data());
        EXPECT_EQ(ours[0], -128.0f * scale);
      }
    }
  }
  EXPECT_FALSE(can_pack(WeightFormat::kQ4_1, SourceType::kI8Channel));
}

TEST(PackTest, RefusesScalesThatAreNotFinite) {
  std::vector<std::byte> row(4 + 8);
  EXPECT_TRUE(has_finite_scales(SourceType::kI8Channel, row.data(), 8));
  const float infinite = INFINITY;
  std::memcpy(row.data(), &infinite, sizeof infinite);
  EXPECT_FALSE(has_finite_scales(SourceType::kI8Channel, row.data(), 8));
}

std::string read_file(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/gguf_blocks/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PackTest, StoredBlocksEqualTheGoldenValuesPackedOrNot) {
  for (const WeightFormat format : kFormats) {
    const auto source = static_cast<SourceType>(format);
    if (!is_blocks(source)) continue;
    const std::string name(source == SourceType::kQ8_0 ? "q8_0" : to_string(format));
    const std::string blocks = read_file(name + ".blocks");
    const std::string golden = read_file(name + ".f32");
    const auto k = static_cast<int64_t>(golden.size() / sizeof(float));
    ASSERT_GT(k, 0) << name;
    ASSERT_EQ(source_row_bytes(source, k), std::ssize(blocks)) << name;
    std::vector<float> expected(golden.size() / sizeof(float)), ours(expected.size());
    std::memcpy(expected.data(), golden.data(), golden.size());
    const auto* row = reinterpret_cast<const std::byte*>(blocks.data());
    dequantize_row(source, row, k, ours.data());
    EXPECT_TRUE(same_bits(ours, expected)) << name;
    std::vector<std::byte> packed(static_cast<size_t>(panel_bytes(format, k)));
    pack_panel(format, source, &row, 1, k, packed.data());
    unpack_row(format, packed.data(), k, 0, ours.data());
    EXPECT_TRUE(same_bits(ours, expected)) << name << " packed";
    EXPECT_TRUE(has_finite_scales(source, row, k)) << name;
  }
}

TEST(PackTest, BlocksDequantiseAsGgmlDoes) {
  std::vector<std::byte> block(18, std::byte(0));
  const uint16_t half = f32_to_f16(0.5f);
  std::memcpy(block.data(), &half, 2);
  block[2] = std::byte(0xf0);  // low nibble 0 is element 0, high nibble 15 is element 16
  float out[32];
  dequantize_row(SourceType::kQ4_0, block.data(), 32, out);
  EXPECT_EQ(out[0], -4.0f);
  EXPECT_EQ(out[16], 3.5f);
  EXPECT_EQ(out[1], -4.0f);
  block.resize(20, std::byte(0));
  const uint16_t min = f32_to_f16(-2.0f);
  std::memcpy(block.data() + 2, &min, 2);
  block[4] = std::byte(0x31);
  dequantize_row(SourceType::kQ4_1, block.data(), 32, out);
  EXPECT_EQ(out[0], -1.5f);
  EXPECT_EQ(out[16], -0.5f);
  block.assign(34, std::byte(0xff));
  std::memcpy(block.data(), &half, 2);
  dequantize_row(SourceType::kQ8_0, block.data(), 32, out);
  EXPECT_EQ(out[31], -0.5f);
}

TEST(PackTest, NothingIsRequantised) {
  EXPECT_FALSE(can_pack(WeightFormat::kQ4_0, SourceType::kQ4_1));
  EXPECT_FALSE(can_pack(WeightFormat::kQ8G32, SourceType::kBF16));
  EXPECT_TRUE(can_pack(WeightFormat::kBF16, SourceType::kQ4_1));
}

TEST(PackedTest, SizesAreMultiplesOf32) {
  for (const WeightFormat format : kFormats) {
    for (const int64_t k : {1, 2, 31, 33, 576}) EXPECT_EQ(panel_bytes(format, k) % 32, 0) << to_string(format) << k;
  }
  EXPECT_EQ(packed_bytes(WeightFormat::kQ8G32, 17, 64), 2 * 2 * (32 * 16 + 32));
}

}  // namespace
}  // namespace lockstep::kernels
