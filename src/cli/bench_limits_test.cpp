// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_limits.h"

#include <gtest/gtest.h>

#include "ops/matmul_ceiling.h"

namespace lockstep::cli {
namespace {

using kernels::WeightFormat;

constexpr int64_t kHidden = 64;

ops::Matrix zeros(const ops::Context& ctx, int64_t n) {
  auto builder = ops::MatrixBuilder::create(WeightFormat::kF32, n, kHidden, "zeros");
  const std::vector<float> row(kHidden);
  const std::vector<const std::byte*> rows(static_cast<size_t>(n), reinterpret_cast<const std::byte*>(row.data()));
  EXPECT_TRUE(builder->add_rows(ctx, 0, DType::kF32, rows).ok());
  return std::move(*builder).finish();
}

/// One layer of four 64 x 64 matrices and a head of as much.
class LimitsTest : public ::testing::Test {
 protected:
  LimitsTest() {
    config_.hidden_size = kHidden;
    config_.num_layers = 1;
    config_.num_heads = 2;
    config_.num_kv_heads = 1;
    config_.head_dim = 32;
    weights_.embedding = zeros(ctx_, kHidden);
    loader::LayerWeights& layer = weights_.layers.emplace_back();
    for (loader::Projection* projection : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) {
      projection->parts.push_back({zeros(ctx_, kHidden), 0});
    }
    limits_.read_gbps = 1;
    limits_.fma_f32_gflops = 1;
    limits_.matmul = {{WeightFormat::kF32, 1}};
  }
  double limit(const BenchTest& test) const { return limit_ms(limits_, {config_, weights_, DType::kBF16, 8}, test); }

  cpu::ThreadPool pool_{1, /*pin=*/false};
  ops::Context ctx_{*kernels::select_kernels("ref"), &pool_};
  files::ModelConfig config_;
  loader::DecoderWeights weights_;
  MachineLimits limits_;
};

constexpr double kMatrixBytes = 4.0 * kHidden * kHidden;
constexpr double kMatrixFlop = 2.0 * kHidden * kHidden;

TEST_F(LimitsTest, AStageTakesItsBytesOrItsOperations) {
  limits_.fma_f32_gflops = 1e9;
  BenchTest decode{.rows = 1, .tokens = 1, .context = 92, .steps = 8};  // 92 + 4 untimed + 4 = 100
  ASSERT_EQ(middle_context(decode), 100);
  const double kv_bytes = 100 * 2 * 32 * 2;                               // K and V of one head, bf16
  EXPECT_NEAR(limit(decode), (5 * kMatrixBytes + kv_bytes) / 1e6, 1e-9);  // 1 row: 2 operations a weight of 4 bytes
  decode.rows = 10;
  EXPECT_NEAR(limit(decode), (5 * 10 * kMatrixFlop + 10 * kv_bytes) / 1e6, 1e-9);
  limits_.matmul[0].second = 2;
  EXPECT_NEAR(limit(decode), (5 * 5 * kMatrixFlop + 10 * kv_bytes) / 1e6, 1e-9);
}

TEST_F(LimitsTest, APrefillIsTheSumOfItsChunks) {
  limits_.read_gbps = 1e9;
  const BenchTest prefill{.prefill = true, .tokens = 20};  // chunks of 8, 8, 4; 20 * 21 / 2 pairs
  const double attention = 4.0 * 2 * 32 * 210;
  EXPECT_NEAR(limit(prefill), (4 * 20 * kMatrixFlop + kMatrixFlop + attention) / 1e6, 1e-9);  // the head sees one token
  limits_.read_gbps = 1e-3;
  limits_.matmul[0].second = 1e9;
  limits_.fma_f32_gflops = 1e9;
  const double kv = (8 + 16 + 20) * 2 * 32 * 2;
  EXPECT_NEAR(limit(prefill), (3 * 4 * kMatrixBytes + kMatrixBytes + kv) / 1e3, 1e-6);
}

TEST_F(LimitsTest, TheCeilingIsMeasured) {
  const auto gflops = ops::measure_matmul_ceiling(ctx_, weights_.embedding);
  ASSERT_TRUE(gflops.has_value());
  EXPECT_GT(*gflops, 0.001);
  EXPECT_LT(*gflops, 1000);
}

}  // namespace
}  // namespace lockstep::cli
