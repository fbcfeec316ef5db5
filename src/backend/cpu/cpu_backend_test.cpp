// SPDX-License-Identifier: Apache-2.0
// What the conformance suite (tests/backend_conformance) does not see: order of calls, errors, memory, damaged numbers.
#include "backend/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/golden_support.h"
#include "loader/testing.h"

namespace lockstep::backend {
namespace {

using loader::testing::MemoryCheckpoint;
using loader::testing::small_config;
using step::testing::RowSpec;
using step::testing::StagedStep;
using testing::Engine;
using ::testing::HasSubstr;

std::shared_ptr<MemoryCheckpoint> small_model(DType dtype) {
  loader::ModelConfig config = small_config(loader::Architecture::kQwen3);
  config.head_dim = 16;
  config.tie_word_embeddings = false;
  return loader::testing::random_checkpoint(config, model::decoder_spec(config), dtype, 3);
}

step::KvGeometry geometry(const CpuBackend& backend, int64_t blocks) {
  const Capabilities caps = backend.capabilities();
  return {.num_layers = caps.num_layers,
          .num_kv_heads = caps.num_kv_heads,
          .head_dim = caps.head_dim,
          .block_size = 16,
          .num_blocks = blocks,
          .dtype = DType::kBF16};
}

std::unique_ptr<CpuBackend> load_small(DType dtype = DType::kF32) {
  auto backend = CpuBackend::load(small_model(dtype), {.threads = 2});
  EXPECT_TRUE(backend) << backend.error().to_string();
  return std::move(*backend);
}

StepShape small_shape() {
  StepShape shape;
  shape.max_num_seqs = 4;
  shape.max_num_batched_tokens = 64;
  return shape;
}

RowSpec row(std::vector<int32_t> tokens, int32_t page) {
  RowSpec out;
  out.tokens = std::move(tokens);
  out.samples = 1;
  out.pages = {page};
  out.logprobs_k = 0;
  return out;
}

TEST(CpuBackend, RefusesOptions) {
  EXPECT_THAT(CpuBackend::load(small_model(DType::kF32), {.threads = -1}).error().message(),
              HasSubstr("threads is -1"));
  const auto isa = CpuBackend::load(small_model(DType::kF32), {.isa = "neon"});
  ASSERT_FALSE(isa);
  EXPECT_THAT(isa.error().message(), HasSubstr("neon"));
}

TEST(CpuBackend, KeepsTheOrderOfCalls) {
  const auto backend = load_small();
  EXPECT_EQ(backend->allocate_kv(geometry(*backend, 8)).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(backend->copy_block(0, 1).code(), StatusCode::kFailedPrecondition);
  EXPECT_GT(backend->memory().weight_bytes, 0);
  EXPECT_EQ(backend->memory().scratch_bytes, 0);
  ASSERT_TRUE(backend->warm_up(small_shape()).ok());
  EXPECT_EQ(backend->warm_up(small_shape()).code(), StatusCode::kFailedPrecondition);
  EXPECT_GT(backend->memory().scratch_bytes, 0);
  EXPECT_EQ(backend->memory().kv_bytes, 0);  // the warm-up's pages are gone
  const StagedStep staged(1, 0, {row({1, 2}, 0)}, 16, 1);
  EXPECT_EQ(backend->validate(staged.args, {}).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(backend->allocate_kv(geometry(*backend, 8)).ok());
  EXPECT_EQ(backend->memory().kv_bytes, geometry(*backend, 8).total_bytes());
  EXPECT_EQ(backend->validate(staged.args, {}).code(), StatusCode::kInvalidArgument);
}

TEST(CpuBackend, RefusesShapes) {
  const auto backend = load_small();
  StepShape shape = small_shape();
  shape.max_model_len = 513;
  EXPECT_THAT(backend->warm_up(shape).message(), HasSubstr("max_model_len is 513, expected 1 to 512"));
  shape = small_shape();
  shape.block_size = 24;
  EXPECT_THAT(backend->warm_up(shape).message(), HasSubstr("block_size is 24, expected one of 16, 32, 64, 128, 256"));
  shape = small_shape();
  shape.max_num_batched_tokens = 3;
  EXPECT_THAT(backend->warm_up(shape).message(), HasSubstr("max_num_batched_tokens is 3"));
  shape = small_shape();
  shape.max_step_width = 9;
  EXPECT_THAT(backend->warm_up(shape).message(), HasSubstr("max_step_width is 9"));
  shape = small_shape();
  shape.kv_dtype = DType::kI8;
  EXPECT_THAT(backend->warm_up(shape).message(), HasSubstr("kv dtype is i8"));
  ASSERT_TRUE(backend->warm_up(small_shape()).ok());
  step::KvGeometry kv = geometry(*backend, 0);
  EXPECT_THAT(backend->allocate_kv(kv).message(), HasSubstr("num_blocks is 0"));
  kv = geometry(*backend, 4);
  kv.head_dim = 32;
  EXPECT_THAT(backend->allocate_kv(kv).message(), HasSubstr("head_dim is 32, expected 16"));
}

TEST(CpuBackend, AKvPoolThatDoesNotFitIsAnErrorAndCanBeTriedAgain) {
  const auto backend = load_small();
  ASSERT_TRUE(backend->warm_up(small_shape()).ok());
  step::KvGeometry kv = geometry(*backend, (int64_t{1} << 27) - 1);
  kv.dtype = DType::kF32;
  // 2^27 blocks of 16 KiB: 2 TiB may be granted by a generous kernel, but not under an address-space limit.
  const Status huge = backend->allocate_kv(kv);
  if (!huge.ok()) {
    EXPECT_EQ(huge.code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(backend->memory().kv_bytes, 0);
  }
  EXPECT_TRUE(backend->allocate_kv(geometry(*backend, 8)).ok());
}

TEST(CpuBackend, FullWarmUpRunsTheWholeShape) {
  for (const int64_t rows : {1, 3, 16}) {
    const auto backend = load_small();
    StepShape shape = small_shape();
    shape.max_num_seqs = rows;
    shape.full_warm_up = true;
    EXPECT_TRUE(backend->warm_up(shape).ok());
  }
}

/// A row whose numbers overflow ends alone: its status says so, it gets no token, its neighbour keeps its bits.
void expect_only_row_is_lost(std::shared_ptr<MemoryCheckpoint> checkpoint, int32_t bad_token) {
  Engine engine = testing::make_engine(std::move(checkpoint), {.threads = 2}, small_shape(), 8);
  const auto good = engine.driver->run(StagedStep(1, 0, {row({1, 2, 3}, 0)}, 16, 1));
  ASSERT_TRUE(good);
  ASSERT_EQ(good->row_status[0], 0);
  const auto both =
      engine.driver->run(StagedStep(2, 0, {row({4, bad_token, 5}, 1), row({1, 2, 3}, 2), row({4, 5}, 3)}, 16, 1));
  ASSERT_TRUE(both);
  EXPECT_EQ(both->row_status, (std::vector<int32_t>{1, 0, 0}));
  EXPECT_EQ(both->sampled_ids[8], good->sampled_ids[0]);
  EXPECT_EQ(std::memcmp(&both->logprobs[1], &good->logprobs[0], sizeof(float)), 0);
  // In mid-prompt nothing is sampled, and the status says it all the same.
  RowSpec chunk = row({bad_token, 1}, 4);
  chunk.samples = 0;
  const auto mid = engine.driver->run(StagedStep(3, 0, {chunk, row({1, 2, 3}, 5)}, 16, 1));
  ASSERT_TRUE(mid);
  EXPECT_EQ(mid->row_status, (std::vector<int32_t>{1, 0}));
}

TEST(CpuBackend, NonFiniteNumbersEndOneRowOnly) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    auto checkpoint = small_model(DType::kF32);
    auto* values =
        reinterpret_cast<float*>(const_cast<std::byte*>(checkpoint->at("model.embed_tokens.weight").data.data()));
    for (int64_t i = 0; i < 64; ++i) values[7 * 64 + i] = bad;
    expect_only_row_is_lost(checkpoint, 7);
  }
}

TEST(CpuBackend, NonFiniteNumbersEndOneRowOnlyInInt8) {
  auto checkpoint = small_model(DType::kQ8_0);
  const std::vector<int64_t> shape = checkpoint->at("model.embed_tokens.weight").shape;
  std::vector<float> embedding(static_cast<size_t>(shape[0] * shape[1]));
  for (size_t i = 0; i < embedding.size(); ++i) embedding[i] = static_cast<float>(i % 13) * 0.1f - 0.6f;
  embedding[static_cast<size_t>(7 * shape[1])] = std::numeric_limits<float>::infinity();
  checkpoint->remove("model.embed_tokens.weight");
  checkpoint->add_f32("model.embed_tokens.weight", shape, embedding);
  expect_only_row_is_lost(checkpoint, 7);
}

TEST(CpuBackend, ABlockWithoutAFiniteScaleIsRefused) {
  auto checkpoint = small_model(DType::kQ8_0);
  auto* bytes = const_cast<std::byte*>(checkpoint->at("model.embed_tokens.weight").data.data());
  const uint16_t infinity = 0x7c00;
  std::memcpy(bytes + 7 * 2 * 34, &infinity, sizeof infinity);  // the scale of row 7's first block
  const auto backend = CpuBackend::load(checkpoint, {.threads = 2});
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code(), StatusCode::kDataLoss);
  EXPECT_THAT(backend.error().message(), HasSubstr("model.embed_tokens.weight"));
}

TEST(CpuBackend, OverflowingLogitsNeverBecomeAToken) {
  auto checkpoint = small_model(DType::kF32);
  auto* values = reinterpret_cast<float*>(const_cast<std::byte*>(checkpoint->at("lm_head.weight").data.data()));
  for (int64_t i = 0; i < 64; ++i) values[5 * 64 + i] = i % 2 == 0 ? 3e38f : -3e38f;
  Engine engine = testing::make_engine(checkpoint, {.threads = 2}, small_shape(), 8);
  RowSpec scored = row({1, 2, 3}, 0);
  scored.targets = {2, -1, -1};
  scored.samples = 0;
  RowSpec greedy = row({1, 2, 3}, 1);
  greedy.logprobs_k = -1;
  const auto result = engine.driver->run(StagedStep(1, 0, {scored, greedy}, 16, 1));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->row_status, (std::vector<int32_t>{1, 1}));
  EXPECT_EQ(result->sampled_ids[8], -1);
  EXPECT_TRUE(std::isnan(result->score_logprobs[0]));
}

TEST(CpuBackend, PlanEqualsWhatIsBooked) {
  const auto checkpoint = small_model(DType::kBF16);
  const auto backend = CpuBackend::load(checkpoint, {.threads = 2});
  ASSERT_TRUE(backend);
  ASSERT_TRUE((*backend)->warm_up(small_shape()).ok());
  const auto plan = CpuBackend::plan(checkpoint->config(), loader::WeightsMode::kNative, small_shape(), 2);
  ASSERT_TRUE(plan);
  // Vectors are counted by their bytes here and by the page there; int8 rows are planned for and not needed here.
  EXPECT_GE((*backend)->memory().weight_bytes, plan->weight_bytes);
  EXPECT_LE((*backend)->memory().scratch_bytes, plan->scratch_bytes);
  EXPECT_EQ(plan->kv_bytes, 4 * 512 * 2 * 2 * 2 * 16 * 2);
}

TEST(CpuBackend, Plans14BWithinTwoGigabytesOfScratch) {
  loader::ModelConfig config;
  config.architecture = loader::Architecture::kQwen3;
  config.vocab_size = 151936;
  config.hidden_size = 5120;
  config.intermediate_size = 17408;
  config.num_layers = 40;
  config.num_heads = 40;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  config.max_position = 40960;
  config.dtype = "bfloat16";
  StepShape shape;
  shape.max_num_seqs = 16;
  shape.max_num_batched_tokens = 4096;
  const auto plan = CpuBackend::plan(config, loader::WeightsMode::kNative, shape, 16);
  ASSERT_TRUE(plan) << plan.error().to_string();
  EXPECT_LE(plan->scratch_bytes, int64_t{2} << 30);
  EXPECT_NEAR(static_cast<double>(plan->weight_bytes), 29.5e9, 0.2e9);  // 14.77 G parameters in bf16
  EXPECT_EQ(plan->kv_bytes, int64_t{16} * 40960 * 40 * 2 * 8 * 128 * 2);
  RecordProperty("scratch_bytes", std::to_string(plan->scratch_bytes));
}

TEST(CpuBackend, BuffersAreCheckedAndZeroed) {
  const auto backend = load_small();
  EXPECT_FALSE(backend->allocate(DType::kF32, -1, 1, 2));
  EXPECT_FALSE(backend->allocate(DType::kF32, int64_t{1} << 62, 16, 2));
  EXPECT_FALSE(backend->allocate(DType::kF32, 1, 1, 3));
  const auto buffer = backend->allocate(DType::kI32, 3, 5, 2);
  ASSERT_TRUE(buffer);
  std::vector<int32_t> values(15, 9);
  EXPECT_FALSE(backend->read((*buffer)->view(), values.data(), 56).ok());
  ASSERT_TRUE(backend->read((*buffer)->view(), values.data(), 60).ok());
  EXPECT_EQ(values, std::vector<int32_t>(15, 0));
}

TEST(CpuBackend, DescribesItself) {
  const auto backend = CpuBackend::load(small_model(DType::kQ8_0), {.threads = 2, .isa = "avx2"});
  ASSERT_TRUE(backend);
  EXPECT_EQ((*backend)->describe(), "cpu avx2, 2 threads, weights native (w8g32)");
}

TEST(CpuBackend, FilledPagesHoldFiniteNumbersOfEitherSign) {
  const auto backend = load_small();
  EXPECT_EQ(backend->fill_kv().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(backend->warm_up(small_shape()).ok());
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    step::KvGeometry kv = geometry(*backend, 3);
    kv.dtype = dtype;
    ASSERT_TRUE(backend->allocate_kv(kv).ok());
    ASSERT_TRUE(backend->fill_kv().ok());
    int64_t negative = 0, count = 0;
    for (int64_t layer = 0; layer < kv.num_layers; ++layer) {
      for (const std::span<std::byte> bytes :
           {backend->kv_pool().k_block(layer, 2), backend->kv_pool().v_block(layer, 2)}) {
        for (int64_t i = 0; i < kv.block_elements(); ++i, ++count) {
          const float value = dtype == DType::kF32 ? reinterpret_cast<const float*>(bytes.data())[i]
                                                   : bf16_to_f32(reinterpret_cast<const uint16_t*>(bytes.data())[i]);
          ASSERT_GE(std::fabs(value), 0.5f);
          ASSERT_LT(std::fabs(value), 1.0f);
          negative += value < 0 ? 1 : 0;
        }
      }
    }
    EXPECT_GT(negative, count / 4);
    EXPECT_LT(negative, 3 * count / 4);
  }
}

}  // namespace
}  // namespace lockstep::backend
