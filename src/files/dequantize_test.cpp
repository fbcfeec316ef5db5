// SPDX-License-Identifier: Apache-2.0
#include "files/dequantize.h"

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "files/testing.h"
#include "gtest/gtest.h"

namespace lockstep::files {
namespace {

constexpr DType kAll[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0,   DType::kQ4_1,
                          DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ2_K,   DType::kQ3_K,
                          DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// Golden values: tests/tools/make_gguf_blocks.py.
TEST(Dequantize, EqualsPyPiGgufInBits) {
  for (const DType dtype : kAll) {
    ASSERT_TRUE(can_dequantize(dtype));
    const std::filesystem::path folder = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/gguf_blocks";
    const std::string name(to_string(dtype));
    const std::string blocks = read(folder / (name + ".blocks"));
    const std::string expected = read(folder / (name + ".f32"));
    ASSERT_FALSE(expected.empty());
    std::vector<float> out(expected.size() / sizeof(float));
    // One byte off: stored data has no alignment.
    const std::string shifted = "x" + blocks;
    const Status status = dequantize(dtype, std::as_bytes(std::span(shifted)).subspan(1), out);
    ASSERT_TRUE(status.ok()) << name << ": " << status.to_string();
    for (size_t i = 0; i < out.size(); ++i) {
      float value = 0;
      std::memcpy(&value, expected.data() + i * sizeof value, sizeof value);
      ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(out[i]))
          << name << " element " << i << ": expected " << value << ", found " << out[i];
    }
  }
}

TEST(Dequantize, OneBlockByHand) {
  // Q4_1: d = 0.5, m = -1; byte 0 = 0xF3: element 0 is 3, element 16 is 15.
  std::string block(20, '\0');
  block[1] = 0x38;
  block[3] = static_cast<char>(0xbc);
  block[4] = static_cast<char>(0xf3);
  std::vector<float> out(32);
  ASSERT_TRUE(dequantize(DType::kQ4_1, std::as_bytes(std::span(block)), out).ok());
  EXPECT_EQ(out[0], 0.5f);
  EXPECT_EQ(out[16], 6.5f);
  EXPECT_EQ(out[1], -1.0f);
}

TEST(Dequantize, RefusesWrongSizesAndTypes) {
  std::vector<std::byte> data(40);
  std::vector<float> out(64);
  EXPECT_TRUE(dequantize(DType::kQ4_1, data, out).ok());
  EXPECT_EQ(dequantize(DType::kQ4_1, std::span(data).first(39), out).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(dequantize(DType::kQ4_1, data, std::span(out).first(63)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(dequantize(DType::kQ6_K, data, std::span(out)).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(dequantize(DType::kF32, {}, {}).ok());
  for (const DType dtype : {DType::kI8, DType::kU8, DType::kI32, DType::kI64, DType::kBool, DType::kF8E4M3}) {
    EXPECT_FALSE(can_dequantize(dtype));
    EXPECT_EQ(dequantize(dtype, {}, {}).code(), StatusCode::kUnsupported);
  }
}

}  // namespace
}  // namespace lockstep::files
