// SPDX-License-Identifier: Apache-2.0
// SmolLM2-135M-Instruct in Q4_1 (GGUF), the default model: against the golden values in f32, and against itself as
// stored.
#include <gtest/gtest.h>

#include <filesystem>

#include "backend/cpu/golden_support.h"

namespace lockstep::backend {
namespace {

using testing::Engine;
using testing::Request;

constexpr double kTolerance = 1e-3;  // golden README: f32 itself wanders by 2e-4 here

class SmolLm2 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(LOCKSTEP_SMOLLM2_GGUF)) GTEST_SKIP() << LOCKSTEP_SMOLLM2_GGUF << " is not there";
  }
  static Engine engine(loader::WeightsMode weights, DType kv) {
    auto checkpoint = loader::Checkpoint::open(LOCKSTEP_SMOLLM2_GGUF);
    EXPECT_TRUE(checkpoint) << checkpoint.error().to_string();
    return testing::make_engine(*checkpoint, {.weights = weights}, testing::test_shape(kv), 128);
  }
  std::vector<Request> requests(int64_t max_tokens) {
    std::vector<Request> out;
    for (const auto& prompt : golden_["prompts"]) {
      Request request;
      request.prompt = prompt["prompt_ids"].get<std::vector<int32_t>>();
      request.max_tokens = max_tokens;
      request.logprobs_k = 10;
      out.push_back(std::move(request));
    }
    return out;
  }
  const nlohmann::json golden_ = testing::read_json(testing::golden_path("smollm2/golden.json"));
};

TEST_F(SmolLm2, GreedyIdsAndLogprobsInF32) {
  Engine f32 = engine(loader::WeightsMode::kF32, DType::kF32);
  const std::vector<Request> all = requests(48);
  const auto streams = testing::generate(*f32.driver, all, f32.options());
  ASSERT_TRUE(streams) << streams.error().to_string();
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& prompt = golden_["prompts"][i];
    SCOPED_TRACE(prompt["name"].get<std::string>());
    EXPECT_EQ((*streams)[i].ids, prompt["greedy_ids"].get<std::vector<int32_t>>());
    for (size_t step = 0; step < 48; ++step) {
      for (size_t j = 0; j < 10; ++j) {
        ASSERT_NEAR((*streams)[i].top_logprobs[step * 10 + j], prompt["top"][step][j][1].get<double>(), kTolerance)
            << step;
      }
    }
  }
}

TEST_F(SmolLm2, AsStoredABatchEqualsEachAlone) {
  Engine native = engine(loader::WeightsMode::kNative, DType::kBF16);
  const std::vector<Request> all = requests(12);
  const auto together = testing::generate(*native.driver, all, native.options());
  ASSERT_TRUE(together) << together.error().to_string();
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<Request> one = {all[i]};
    testing::GenerateOptions options = native.options();
    options.chunk = 5;
    const auto alone = testing::generate(*native.driver, one, options);
    ASSERT_TRUE(alone);
    EXPECT_EQ((*alone)[0].ids, (*together)[i].ids);
    EXPECT_EQ(std::memcmp((*alone)[0].top_logprobs.data(), (*together)[i].top_logprobs.data(),
                          (*alone)[0].top_logprobs.size() * sizeof(float)),
              0);
    // The first token is the golden one where the golden model is sure of it.
    if (golden_["prompts"][i]["gap"][0].get<double>() > 1.0) {
      EXPECT_EQ((*together)[i].ids[0], golden_["prompts"][i]["greedy_ids"][0].get<int32_t>());
    }
  }
}

}  // namespace
}  // namespace lockstep::backend
