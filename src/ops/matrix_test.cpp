// SPDX-License-Identifier: Apache-2.0
#include "ops/matrix.h"

#include "ops/test_support.h"

namespace lockstep::ops {
namespace {

using kernels::WeightFormat;
using testing::Engine;
using testing::Source;

constexpr DType kSources[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,   DType::kQ4_0,
                              DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ2_K,   DType::kQ3_K,
                              DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS};

const kernels::KernelTable* reference() { return *kernels::select_kernels("ref"); }

void expect_rows(const Matrix& matrix, const Source& source, int64_t matrix_first, int64_t source_first, int64_t count,
                 bool to_bf16) {
  std::vector<float> row(static_cast<size_t>(source.k));
  for (int64_t i = 0; i < count; ++i) {
    matrix.unpack_row(matrix_first + i, row.data());
    for (int64_t c = 0; c < source.k; ++c) {
      float expected = source.values[static_cast<size_t>((source_first + i) * source.k + c)];
      if (to_bf16) expected = bf16_to_f32(f32_to_bf16(expected));
      ASSERT_EQ(row[static_cast<size_t>(c)], expected) << to_string(source.dtype) << " row " << i << " column " << c;
    }
  }
}

TEST(MatrixTest, EverySourceKeepsItsValues) {
  Engine engine(reference(), 2);
  for (DType dtype : kSources) {
    const Source source = testing::random_source(dtype, 37, 256, 1);
    expect_rows(testing::pack(engine.ctx, source, *native_format(dtype)), source, 0, 0, 37, false);
    expect_rows(testing::pack(engine.ctx, source, WeightFormat::kF32), source, 0, 0, 37, false);
    expect_rows(testing::pack(engine.ctx, source, WeightFormat::kBF16), source, 0, 0, 37, true);
  }
}

TEST(MatrixTest, StackedTensorsMayMeetInsideAPanel) {
  Engine engine(reference(), 3);
  for (DType dtype : kSources) {
    for (WeightFormat format : {*native_format(dtype), WeightFormat::kF32}) {
      const int64_t k = dtype_info(dtype).block_elements == 256 ? 256 : 64;
      const Source a = testing::random_source(dtype, 21, k, 2);
      const Source b = testing::random_source(dtype, 5, k, 3);
      const Source c = testing::random_source(dtype, 40, k, 4);
      auto builder = MatrixBuilder::create(format, 66, k, "stacked");
      ASSERT_TRUE(builder.has_value());
      ASSERT_TRUE(builder->add_rows(engine.ctx, 0, dtype, a.rows(0, 21)).ok());
      ASSERT_TRUE(builder->add_rows(engine.ctx, 21, dtype, b.rows(0, 5)).ok());
      ASSERT_TRUE(builder->add_rows(engine.ctx, 26, dtype, c.rows(0, 40)).ok());
      const Matrix matrix = std::move(*builder).finish();
      expect_rows(matrix, a, 0, 0, 21, false);
      expect_rows(matrix, b, 21, 0, 5, false);
      expect_rows(matrix, c, 26, 0, 40, false);

      // The bytes too are those of one tensor with all the rows.
      Source whole = a;
      whole.n = 66;
      whole.bytes.insert(whole.bytes.end(), b.bytes.begin(), b.bytes.end());
      whole.bytes.insert(whole.bytes.end(), c.bytes.begin(), c.bytes.end());
      const Matrix once = testing::pack(engine.ctx, whole, format);
      ASSERT_EQ(once.bytes(), matrix.bytes());
      EXPECT_EQ(std::memcmp(once.panel(0), matrix.panel(0), static_cast<size_t>(once.bytes())), 0) << to_string(dtype);
    }
  }
}

TEST(MatrixTest, Refusals) {
  Engine engine(reference(), 1);
  EXPECT_EQ(MatrixBuilder::create(WeightFormat::kF32, 0, 4, "w").error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(MatrixBuilder::create(WeightFormat::kF32, int64_t{1} << 40, 4, "w").error().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(MatrixBuilder::create(WeightFormat::kF32, int64_t{1} << 31, int64_t{1} << 31, "w").error().code(),
            StatusCode::kInvalidArgument);
  const auto no_memory = MatrixBuilder::create(WeightFormat::kF32, int64_t{1} << 30, int64_t{1} << 20, "layers.3.w");
  ASSERT_FALSE(no_memory.has_value());
  EXPECT_EQ(no_memory.error().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(no_memory.error().message().find("layers.3.w"), std::string::npos);

  const Source source = testing::random_source(DType::kBF16, 20, 48, 5);
  auto builder = MatrixBuilder::create(WeightFormat::kQ4_0, 20, 48, "w");
  ASSERT_TRUE(builder.has_value());
  EXPECT_EQ(builder->add_rows(engine.ctx, 0, DType::kBF16, source.rows(0, 20)).code(), StatusCode::kUnsupported);
  EXPECT_EQ(builder->add_rows(engine.ctx, 0, DType::kQ4_0, source.rows(0, 1)).code(),
            StatusCode::kUnsupported);  // 48 % 32
  EXPECT_EQ(builder->add_rows(engine.ctx, 0, DType::kI8, source.rows(0, 1)).code(), StatusCode::kUnsupported);
  EXPECT_EQ(builder->add_rows(engine.ctx, 16, DType::kQ4_0, source.rows(0, 5)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(builder->add_rows(engine.ctx, 5, DType::kQ4_0, source.rows(0, 1)).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(native_format(DType::kI8).has_value());
}

TEST(MatrixTest, RefusesBlocksWithoutFiniteScalesAndPartBlocks) {
  Engine engine(reference(), 2);
  struct Place {
    DType dtype;
    std::vector<size_t> halves;  ///< offsets of f16 scales in a block
  };
  for (const Place& place : {Place{DType::kQ8_0, {0}}, Place{DType::kQ4_1, {0, 2}}, Place{DType::kQ5_1, {0, 2}},
                             Place{DType::kQ2_K, {80, 82}}, Place{DType::kQ3_K, {108}}, Place{DType::kQ4_K, {0, 2}},
                             Place{DType::kQ5_K, {0, 2}}, Place{DType::kQ6_K, {208}}, Place{DType::kIQ4_XS, {0}}}) {
    for (const size_t half : place.halves) {
      for (const uint16_t bits : {uint16_t{0x7c00}, uint16_t{0xfc01}}) {
        Source source = testing::random_source(place.dtype, 19, 256, 6);
        std::memcpy(source.bytes.data() + 18 * source.row_bytes + half, &bits, sizeof bits);  // the last row
        auto builder = MatrixBuilder::create(*native_format(place.dtype), 19, 256, "blk.0.w");
        ASSERT_TRUE(builder.has_value());
        const Status status = builder->add_rows(engine.ctx, 0, place.dtype, source.rows(0, 19));
        EXPECT_EQ(status.code(), StatusCode::kDataLoss) << to_string(place.dtype);
        EXPECT_NE(status.message().find("blk.0.w"), std::string::npos);
      }
    }
  }
  const Source source = testing::random_source(DType::kQ4_K, 1, 512, 5);
  auto builder = MatrixBuilder::create(WeightFormat::kQ4_K, 1, 288, "w");
  ASSERT_TRUE(builder.has_value());
  EXPECT_EQ(builder->add_rows(engine.ctx, 0, DType::kQ4_K, source.rows(0, 1)).code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace lockstep::ops
