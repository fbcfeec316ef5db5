// SPDX-License-Identifier: Apache-2.0
// The baseline attention in whole steps: the same tokens and logprob bits as over pages.
#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/golden_support.h"

namespace lockstep::backend {
namespace {

using step::testing::RowSpec;
using step::testing::StagedStep;
using testing::Engine;
using testing::Request;
using testing::Stream;

constexpr int64_t kBlocks = 400;

Engine engine_with(Attention attention, const std::string& model, DType kv, int threads) {
  CpuBackendOptions options;
  options.attention = attention;
  options.threads = threads;
  options.pin_threads = false;
  StepShape shape = testing::test_shape(kv);
  shape.max_model_len = 1200;
  return testing::make_engine(testing::open_golden(model), options, shape, kBlocks);
}

/// Lengths around tiles and segments, arrivals and ends staggered: mid-prompt chunks and decode rows share steps, and
/// rows change their places between steps.
std::vector<Request> staggered_requests() {
  std::vector<Request> out;
  for (const int64_t length : {1, 15, 16, 17, 511, 512, 513, 1030}) {
    Request request;
    const auto number = static_cast<int32_t>(out.size());
    for (int32_t i = 0; i < length; ++i) request.prompt.push_back((7 * i + 13 * number + i * i) % 200);
    request.max_tokens = 4 + number % 3 * 5;
    request.arrival = number % 4;
    request.logprobs_k = 2;
    request.temperature = number % 2 == 0 ? 0.0f : 0.8f;
    request.seed = static_cast<uint64_t>(number);
    out.push_back(std::move(request));
  }
  return out;
}

std::vector<Stream> generate(Engine& engine, const std::vector<Request>& requests, int64_t chunk) {
  testing::GenerateOptions options = engine.options();
  options.chunk = chunk;
  options.page_seed = 3;
  auto streams = testing::generate(*engine.driver, requests, options);
  EXPECT_TRUE(streams) << streams.error().to_string();
  return streams ? *streams : std::vector<Stream>();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(ContiguousStore, SameTokensAndLogprobBitsAsPages) {
  const std::vector<Request> requests = staggered_requests();
  for (const char* model : {"tiny-qwen3-untied", "tiny-llama"}) {
    for (const DType kv : {DType::kBF16, DType::kF32}) {
      Engine paged = engine_with(Attention::kPaged, model, kv, 2);
      const std::vector<Stream> expected = generate(paged, requests, 1 << 20);
      EXPECT_EQ(paged.backend->contiguous_store(), nullptr);
      for (const int64_t chunk : {100, 512}) {
        Engine contiguous = engine_with(Attention::kContiguous, model, kv, chunk == 100 ? 1 : 2);
        const std::vector<Stream> streams = generate(contiguous, requests, chunk);
        ASSERT_EQ(streams.size(), expected.size());
        for (size_t i = 0; i < streams.size(); ++i) {
          EXPECT_EQ(streams[i].ids, expected[i].ids) << model << " request " << i;
          EXPECT_TRUE(same_bits(streams[i].logprobs, expected[i].logprobs)) << model << " request " << i;
          EXPECT_TRUE(same_bits(streams[i].top_logprobs, expected[i].top_logprobs)) << model << " request " << i;
        }
        ASSERT_NE(contiguous.backend->contiguous_store(), nullptr);
        EXPECT_EQ(contiguous.backend->contiguous_store()->copies(), 0) << "a row lost its storage";
        EXPECT_GT(contiguous.backend->memory().kv_bytes, paged.backend->memory().kv_bytes);
      }
    }
  }
}

TEST(ContiguousStore, TheSamePagesCanStartAgain) {
  Engine engine = engine_with(Attention::kContiguous, "tiny-qwen3-untied", DType::kBF16, 2);
  const std::vector<Request> requests = staggered_requests();
  const std::vector<Stream> first = generate(engine, requests, 64);
  for (int run = 0; run < 2; ++run) {  // more sequences than storage rows by now
    const std::vector<Stream> again = generate(engine, requests, 200);
    for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(same_bits(first[i].logprobs, again[i].logprobs)) << i;
  }
  EXPECT_EQ(engine.backend->contiguous_store()->copies(), 0);
}

RowSpec row_of(int64_t start, int64_t tokens, std::vector<int32_t> pages) {
  RowSpec row;
  for (int64_t i = 0; i < tokens; ++i) row.tokens.push_back(static_cast<int32_t>((start + i) * 11 % 200));
  row.start = start;
  row.pages = std::move(pages);
  row.samples = 1;
  row.logprobs_k = 0;
  return row;
}

/// What a row that continues pages which it has no storage row for gives.
std::vector<float> logprobs_after_shared_pages(Attention attention, int64_t* copies) {
  Engine engine = engine_with(attention, "tiny-qwen3-untied", DType::kBF16, 1);
  std::vector<float> out;
  uint64_t number = 0;
  const auto run = [&](const std::vector<RowSpec>& rows) {
    const auto result = engine.driver->run(StagedStep(++number, 0, rows, 16, 4));
    EXPECT_TRUE(result) << result.error().to_string();
    if (result) out.insert(out.end(), result->logprobs.begin(), result->logprobs.end());
  };
  run({row_of(0, 40, {9, 4, 7})});
  run({row_of(32, 3, {9, 4, 20}), row_of(40, 1, {9, 4, 7})});  // the first shares two pages with the second
  run({row_of(41, 1, {9, 4, 7}), row_of(35, 2, {9, 4, 20})});
  if (engine.backend->contiguous_store() != nullptr) *copies = engine.backend->contiguous_store()->copies();
  return out;
}

TEST(ContiguousStore, SharedPagesAreCopied) {
  int64_t copies = 0;
  const std::vector<float> expected = logprobs_after_shared_pages(Attention::kPaged, &copies);
  EXPECT_TRUE(same_bits(logprobs_after_shared_pages(Attention::kContiguous, &copies), expected));
  EXPECT_EQ(copies, 1);
}

TEST(ContiguousStore, TheAttentionOfABackendCanBeChosenBetweenRuns) {
  const std::vector<Request> requests = staggered_requests();
  Engine engine = engine_with(Attention::kContiguous, "tiny-qwen3-untied", DType::kBF16, 2);
  const std::vector<Stream> expected = generate(engine, requests, 512);
  for (const Attention attention : {Attention::kPaged, Attention::kContiguous}) {
    ASSERT_TRUE(engine.backend->use_attention(attention).ok());
    const uint64_t before = engine.backend->contiguous_store()->steps();
    const std::vector<Stream> streams = generate(engine, requests, 512);
    EXPECT_EQ(engine.backend->contiguous_store()->steps() > before, attention == Attention::kContiguous);
    ASSERT_EQ(streams.size(), expected.size());
    for (size_t i = 0; i < streams.size(); ++i) {
      EXPECT_EQ(streams[i].ids, expected[i].ids) << "request " << i;
      EXPECT_TRUE(same_bits(streams[i].logprobs, expected[i].logprobs)) << "request " << i;
    }
  }
  Engine paged = engine_with(Attention::kPaged, "tiny-qwen3-untied", DType::kBF16, 2);
  EXPECT_EQ(paged.backend->use_attention(Attention::kContiguous).code(), StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace lockstep::backend
