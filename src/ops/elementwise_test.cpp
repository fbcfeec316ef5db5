// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise.h"

#include <cmath>

#include "ops/test_support.h"

namespace lockstep::ops {
namespace {

using testing::Engine;
using testing::Random;

constexpr int64_t kRows = 33;
constexpr int64_t kColumns = 1030;  // several pieces, no multiple of 16

/// Runs `op` (engine, rows) -> values for every table, thread count and batch; checks that rows keep their bits;
/// returns the values.
template <class Op>
std::vector<float> same_everywhere(int64_t columns, const char* what, Op op) {
  Engine reference(*kernels::select_kernels("ref"), 1);
  const std::vector<float> expected = op(reference, kRows);
  for (const kernels::KernelTable* table : testing::all_tables()) {
    for (int threads : {1, 2, 3, 5}) {
      Engine engine(table, threads);
      for (int64_t rows : {int64_t{1}, int64_t{17}, kRows}) {
        const std::vector<float> out = op(engine, rows);
        testing::expect_same_bits(out.data(), expected.data(), rows * columns,
                                  std::string(what) + " " + std::string(table->isa));
      }
    }
  }
  return expected;
}

TEST(ElementwiseTest, RmsNorm) {
  const std::vector<float> x = Random(1).normals(kRows * kColumns);
  const std::vector<float> w = Random(2).normals(kColumns);
  const std::vector<float> out = same_everywhere(kColumns, "rms_norm", [&](Engine& engine, int64_t rows) {
    std::vector<float> result(static_cast<size_t>(rows * kColumns));
    rms_norm(engine.ctx, testing::view(x, rows, kColumns), testing::view1(w), 1e-6f,
             testing::view(result, rows, kColumns));
    return result;
  });
  for (int64_t t = 0; t < kRows; ++t) {
    double squares = 0;
    for (int64_t i = 0; i < kColumns; ++i) squares += std::pow(double{x[static_cast<size_t>(t * kColumns + i)]}, 2);
    const double scale = 1 / std::sqrt(squares / kColumns + 1e-6);
    for (int64_t i = 0; i < kColumns; ++i) {
      const auto at = static_cast<size_t>(t * kColumns + i);
      ASSERT_NEAR(out[at], x[at] * scale * w[static_cast<size_t>(i)], 1e-5 * (1 + std::fabs(out[at])));
    }
  }
}

TEST(ElementwiseTest, HeadNormIsTheNormOfEachHead) {
  constexpr int64_t heads = 5, dim = 48;
  const std::vector<float> x = Random(3).normals(kRows * heads * dim);
  const std::vector<float> w = Random(4).normals(dim);
  const std::vector<float> out = same_everywhere(heads * dim, "head_norm", [&](Engine& engine, int64_t rows) {
    std::vector<float> result(x.begin(), x.begin() + rows * heads * dim);
    head_norm(engine.ctx, testing::view(result, rows, heads * dim), heads, testing::view1(w), 1e-5f);
    return result;
  });
  Engine engine(*kernels::select_kernels(""), 2);
  std::vector<float> each(x.size());
  rms_norm(engine.ctx, testing::view(x, kRows * heads, dim), testing::view1(w), 1e-5f,
           testing::view(each, kRows * heads, dim));
  testing::expect_same_bits(out, each, "head by head");
}

TEST(ElementwiseTest, RopeTurnsPairs) {
  constexpr int64_t heads = 3, half = 32, dim = 2 * half;
  std::vector<int32_t> positions;
  for (int64_t t = 0; t < kRows; ++t) positions.push_back(static_cast<int32_t>(t * 1237));
  std::vector<float> frequencies;
  for (int64_t i = 0; i < half; ++i)
    frequencies.push_back(static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / half)));
  const std::vector<float> x = Random(5).normals(kRows * heads * dim);
  constexpr float kScale = 1.25f;
  const std::vector<float> out = same_everywhere(heads * dim, "rope", [&](Engine& engine, int64_t rows) {
    std::vector<float> cos(static_cast<size_t>(rows * half)), sin(cos);
    rope_table(engine.ctx, View<const int32_t>(positions.data(), {rows}), testing::view1(frequencies), kScale,
               testing::view(cos, rows, half), testing::view(sin, rows, half));
    std::vector<float> result(x.begin(), x.begin() + rows * heads * dim);
    rope(engine.ctx, testing::view(result, rows, heads * dim), heads, testing::view(std::as_const(cos), rows, half),
         testing::view(std::as_const(sin), rows, half));
    return result;
  });
  for (int64_t t = 0; t < kRows; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < half; ++i) {
        const float angle = frequencies[static_cast<size_t>(i)] * static_cast<float>(positions[static_cast<size_t>(t)]);
        const double c = std::cos(double{angle}) * kScale, s = std::sin(double{angle}) * kScale;
        const auto at = static_cast<size_t>(t * heads * dim + h * dim + i);
        ASSERT_NEAR(out[at], x[at] * c - x[at + half] * s, 2e-6);
        ASSERT_NEAR(out[at + half], x[at + half] * c + x[at] * s, 2e-6);
      }
    }
  }
}

TEST(ElementwiseTest, SiluMulAddAddBias) {
  const std::vector<float> gate_up = Random(6).normals(kRows * 2 * kColumns, 4.0f);
  const std::vector<float> bias = Random(7).normals(kColumns);
  const std::vector<float> out =
      same_everywhere(kColumns, "silu_mul, add, add_bias", [&](Engine& engine, int64_t rows) {
        std::vector<float> result(static_cast<size_t>(rows * kColumns));
        silu_mul(engine.ctx, testing::view(gate_up, rows, 2 * kColumns), testing::view(result, rows, kColumns));
        add_bias(engine.ctx, testing::view(result, rows, kColumns), testing::view1(bias));
        add(engine.ctx, testing::view(result, rows, kColumns), testing::view(gate_up, rows, kColumns));
        return result;
      });
  for (int64_t t = 0; t < kRows; ++t) {
    for (int64_t i = 0; i < kColumns; ++i) {
      const double gate = gate_up[static_cast<size_t>(t * 2 * kColumns + i)],
                   up = gate_up[static_cast<size_t>(t * 2 * kColumns + kColumns + i)];
      const double y = gate_up[static_cast<size_t>(t * kColumns + i)];
      const double expected = gate / (1 + std::exp(-gate)) * up + bias[static_cast<size_t>(i)] + y;
      ASSERT_NEAR(out[static_cast<size_t>(t * kColumns + i)], expected, 2e-5) << t << " " << i;
    }
  }
}

TEST(ElementwiseTest, EmbedGivesTheRowsOfTheTable) {
  Engine engine(*kernels::select_kernels(""), 2);
  for (DType dtype : {DType::kBF16, DType::kQ8_0}) {
    const testing::Source source = testing::random_source(dtype, 301, 64, 8);
    const Matrix table = testing::pack(engine.ctx, source, *native_format(dtype));
    const std::vector<int32_t> ids = {300, 0, 17, 17, 299};
    std::vector<float> out(ids.size() * 64);
    embed(engine.ctx, table, testing::view1(ids), testing::view(out, 5, 64));
    for (size_t t = 0; t < ids.size(); ++t) {
      testing::expect_same_bits(out.data() + t * 64, source.values.data() + ids[t] * 64, 64,
                                "row " + std::to_string(t));
    }
  }
}

}  // namespace
}  // namespace lockstep::ops
