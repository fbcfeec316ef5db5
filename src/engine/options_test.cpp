// SPDX-License-Identifier: Apache-2.0
#include "engine/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "backend/fake/fake_backend.h"

namespace lockstep::engine {
namespace {

using testing::HasSubstr;

backend::Capabilities capabilities() { return backend::make_fake_backend({})->capabilities(); }

TEST(EngineOptions, ZerosAreResolved) {
  const auto options = resolve({}, capabilities());
  ASSERT_TRUE(options);
  EXPECT_EQ(options->max_model_len, 4096);
  EXPECT_THAT(to_string(*options), HasSubstr("max-model-len 4096"));
  EXPECT_THAT(to_string(*options), HasSubstr("kv-cache-dtype bf16"));
}

TEST(EngineOptions, WithoutChunksTheBudgetHoldsAContextBesideFullDecodeRows) {
  EngineOptions options;
  options.enable_chunked_prefill = false;
  options.max_num_batched_tokens = 64;
  const auto resolved = resolve(options, capabilities());
  ASSERT_TRUE(resolved);
  EXPECT_EQ(resolved->max_num_batched_tokens, 4096 + 16);
  EXPECT_EQ(resolved->long_prefill_token_threshold, 4096 + 16);
}

TEST(EngineOptions, EndTokensOutsideTheVocabularyAreIgnored) {
  EngineOptions options;
  options.eos_token_ids = {-1, 999, 1000};
  EXPECT_THAT(resolve(options, capabilities())->eos_token_ids, testing::ElementsAre(999));
}

TEST(EngineOptions, RefusalsNameTheFlag) {
  const std::pair<const char*, std::function<void(EngineOptions&)>> refusals[] = {
      {"--max-num-seqs", [](auto& o) { o.max_num_seqs = 0; }},
      {"--max-num-batched-tokens", [](auto& o) { o.max_num_batched_tokens = 15; }},
      {"--long-prefill-token-threshold", [](auto& o) { o.long_prefill_token_threshold = 0; }},
      {"--max-model-len", [](auto& o) { o.max_model_len = 4097; }},
      {"--block-size", [](auto& o) { o.block_size = 24; }},
      {"--kv-cache-dtype", [](auto& o) { o.kv_dtype = DType::kF16; }},
      {"--num-kv-blocks", [](auto& o) { o.num_kv_blocks = INT64_MAX; }},
      {"--kv-cache-memory", [](auto& o) { o.kv_cache_memory = -1; }},
      {"--memory-utilization", [](auto& o) { o.memory_utilization = 1.5; }},
      {"--max-step-width", [](auto& o) { o.max_step_width = 9; }},
      {"--max-queued-requests", [](auto& o) { o.max_queued_requests = -1; }},
      {"--max-queued-tokens", [](auto& o) { o.max_queued_tokens = -1; }},
  };
  for (const auto& [flag, change] : refusals) {
    EngineOptions options;
    change(options);
    const auto resolved = resolve(options, capabilities());
    ASSERT_FALSE(resolved) << flag;
    EXPECT_EQ(resolved.error().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(resolved.error().message(), HasSubstr(flag));
  }
}

}  // namespace
}  // namespace lockstep::engine
