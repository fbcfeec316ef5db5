// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

#include <cmath>

#include "ops/test_support.h"

namespace lockstep::ops {
namespace {

using kernels::WeightFormat;
using testing::Engine;
using testing::Random;
using testing::Source;

constexpr DType kSources[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,   DType::kQ4_0,
                              DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ2_K,   DType::kQ3_K,
                              DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS};

std::vector<float> run(const Engine& engine, const Matrix& w, View<const float> x, int64_t out_stride = 0) {
  const int64_t m = x.extent(0);
  auto quantized = QuantizedRows::create(m, w.k());
  EXPECT_TRUE(quantized.has_value());
  if (kernels::has_rounded_activations(w.format()))
    quantize_rows(engine.ctx, kernels::activations_of(w.format()), x, *quantized, {});
  const int64_t stride = out_stride == 0 ? w.n() : out_stride;
  std::vector<float> storage(static_cast<size_t>(m * stride), testing::kNaN);
  matmul(engine.ctx, w, x, *quantized, View<float>(storage.data(), {m, stride}).columns(0, w.n()));
  return storage;
}

/// The activations that the integer formats see.
std::vector<float> rounded_to_groups(const std::vector<float>& x, int64_t m, int64_t k) {
  std::vector<float> out = x;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t group = 0; group < k; group += 32) {
      float amax = 0;
      const int64_t end = std::min(k, group + 32);
      for (int64_t i = group; i < end; ++i) amax = std::max(amax, std::fabs(x[static_cast<size_t>(row * k + i)]));
      for (int64_t i = group; i < end; ++i) {
        float& value = out[static_cast<size_t>(row * k + i)];
        value = amax == 0 ? 0 : std::nearbyintf(value * (127.0f / amax)) * (amax / 127.0f);
      }
    }
  }
  return out;
}

TEST(MatmulTest, EqualsDoubleWithinBounds) {
  constexpr int64_t m = 5, n = 83, k = 256;
  const std::vector<float> x = Random(1).normals(m * k);
  for (const kernels::KernelTable* table : testing::all_tables()) {
    Engine engine(table, 2);
    for (DType dtype : kSources) {
      const Source source = testing::random_source(dtype, n, k, 7);
      const Matrix w = testing::pack(engine.ctx, source, *native_format(dtype));
      const std::vector<float> seen = kernels::has_rounded_activations(w.format()) ? rounded_to_groups(x, m, k) : x;
      const std::vector<float> out = run(engine, w, testing::view(x, m, k));
      for (int64_t row = 0; row < m; ++row) {
        for (int64_t column = 0; column < n; ++column) {
          double sum = 0, magnitude = 0;
          for (int64_t i = 0; i < k; ++i) {
            const double product =
                double{seen[static_cast<size_t>(row * k + i)]} * source.values[static_cast<size_t>(column * k + i)];
            sum += product;
            magnitude += std::fabs(product);
          }
          // Recursive summation: k roundings of at most 2^-24 of the sum of magnitudes; Q4_1 adds the parts of d*q + m
          // separately.
          ASSERT_NEAR(out[static_cast<size_t>(row * n + column)], sum,
                      4.0 * static_cast<double>(k) * 0x1p-24 * magnitude)
              << table->isa << " " << to_string(dtype) << " row " << row << " column " << column;
        }
      }
    }
  }
}

TEST(MatmulTest, ARowHasTheSameBitsInAnyBatchOnAnyThreadsAndTable) {
  // n and k give several pieces and a part panel; m = 67 several row pieces.
  constexpr int64_t m = 67, n = 507, k = 2304;
  const std::vector<float> x = Random(2).normals(m * k);
  const View<const float> rows = testing::view(x, m, k);
  for (DType dtype : kSources) {
    const Source source = testing::random_source(dtype, n, k, 8);
    Engine reference(*kernels::select_kernels("ref"), 2);
    const Matrix w = testing::pack(reference.ctx, source, *native_format(dtype));
    std::vector<float> expected;
    for (int64_t row : {0, 1, 16, 66}) {
      const std::vector<float> alone = run(reference, w, rows.slice(row, 1));
      expected.insert(expected.end(), alone.begin(), alone.end());
    }
    for (const kernels::KernelTable* table : testing::all_tables()) {
      const bool slow = table->isa == "ref";
      for (int threads : {1, 2, 3, 5}) {
        if (slow && threads != 3) continue;
        Engine engine(table, threads);
        for (int64_t batch : {67, 17, 2}) {
          if (slow && batch == 67) continue;
          const std::vector<float> out = run(engine, w, rows.prefix(batch));
          int64_t at = 0;
          for (int64_t row : {0, 1, 16, 66}) {
            if (row < batch) {
              testing::expect_same_bits(out.data() + row * n, expected.data() + at * n, n,
                                        std::string(table->isa) + " " + std::string(to_string(dtype)) + " batch " +
                                            std::to_string(batch) + " row " + std::to_string(row));
            }
            ++at;
          }
        }
      }
    }
  }
}

TEST(MatmulTest, QuantisedWhileLoadingARowHasTheSameBitsInAnyBatch) {
  constexpr int64_t m = 67, n = 403, k = 2083;  // k is no multiple of 64, of 32, or of 4
  const std::vector<float> x = Random(2).normals(m * k);
  const View<const float> rows = testing::view(x, m, k);
  const Source source = testing::random_source(DType::kBF16, n, k, 8);
  for (const WeightFormat format :
       {WeightFormat::kW8A16, WeightFormat::kW8A8, WeightFormat::kQ4_1, WeightFormat::kBF16Dot}) {
    Engine reference(*kernels::select_kernels("ref"), 2);
    const Matrix w = testing::pack(reference.ctx, source, format);
    const std::vector<float> first = run(reference, w, rows.slice(0, 1));
    const std::vector<float> last = run(reference, w, rows.slice(66, 1));
    for (const kernels::KernelTable* table : testing::all_tables()) {
      for (const int threads : {1, 3}) {
        Engine engine(table, threads);
        const std::vector<float> out = run(engine, w, rows);
        const std::string where = std::string(table->isa) + " " + std::string(kernels::to_string(format));
        testing::expect_same_bits(out.data(), first.data(), n, where + " row 0");
        testing::expect_same_bits(out.data() + 66 * n, last.data(), n, where + " row 66");
      }
    }
  }
}

TEST(MatmulTest, WritesOnlyItsColumnsAndRows) {
  constexpr int64_t m = 3, n = 19, k = 64;
  Engine engine(*kernels::select_kernels(""), 2);
  const Source source = testing::random_source(DType::kF32, n, k, 9);
  const Matrix w = testing::pack(engine.ctx, source, WeightFormat::kF32);
  const std::vector<float> x = Random(3).normals(m * k);
  const std::vector<float> dense = run(engine, w, testing::view(x, m, k));
  const std::vector<float> wide = run(engine, w, testing::view(x, m, k), 32);
  for (int64_t row = 0; row < m; ++row) {
    testing::expect_same_bits(wide.data() + row * 32, dense.data() + row * n, n, "row " + std::to_string(row));
    for (int64_t column = n; column < 32; ++column)
      EXPECT_TRUE(std::isnan(wide[static_cast<size_t>(row * 32 + column)]));
  }
}

TEST(MatmulTest, QuantizeRowsTellsNonFiniteRows) {
  constexpr int64_t m = 4, k = 70;
  for (const kernels::KernelTable* table : testing::all_tables()) {
    Engine engine(table, 2);
    std::vector<float> x = Random(4).normals(m * k);
    x[1 * k + 69] = testing::kNaN;
    x[3 * k + 0] = std::numeric_limits<float>::infinity();
    auto quantized = QuantizedRows::create(m, k);
    ASSERT_TRUE(quantized.has_value());
    using kernels::Activations;
    for (const Activations kind :
         {Activations::kInt8G32, Activations::kInt8G64, Activations::kInt16, Activations::kBF16}) {
      std::vector<int32_t> ok = {1, 1, 1, 1};
      quantize_rows(engine.ctx, kind, testing::view(std::as_const(x), m, k), *quantized, View<int32_t>(ok.data(), {m}));
      EXPECT_EQ(ok, (std::vector<int32_t>{1, 0, 1, 0})) << table->isa << " " << static_cast<int>(kind);
    }
  }
}

}  // namespace
}  // namespace lockstep::ops
