// SPDX-License-Identifier: Apache-2.0
// The tiny golden models through the step contract, once for each instruction set: greedy ids equal, logprobs within
// 2e-4 in f32 (tests/data/golden/README.md).
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "backend/cpu/golden_support.h"

namespace lockstep::backend {
namespace {

using testing::Ask;
using testing::Engine;
using testing::Request;
using testing::Stream;

constexpr double kTolerance = 2e-4;

Engine f32_engine(const std::string& model, const std::string& isa) {
  CpuBackendOptions options;
  options.weights = loader::WeightsMode::kF32;
  options.isa = isa;
  return testing::make_engine(testing::open_golden(model), options, testing::test_shape(DType::kF32), 256);
}

class GoldenTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const std::string model = std::get<0>(GetParam());
  const std::string isa = std::get<1>(GetParam());
  const nlohmann::json golden = testing::read_json(testing::golden_path(model) + "/golden.json");
};

void compare_stream(const Stream& stream, const nlohmann::json& prompt) {
  SCOPED_TRACE(prompt["name"].get<std::string>());
  ASSERT_EQ(stream.ids, prompt["greedy_ids"].get<std::vector<int32_t>>());
  for (size_t step = 0; step < stream.ids.size(); ++step) {
    for (size_t j = 0; j < 20; ++j) {
      const auto& [id, logprob] = prompt["top"][step][j].get<std::pair<int32_t, double>>();
      ASSERT_NEAR(stream.top_logprobs[step * 20 + j], logprob, kTolerance) << "step " << step << " rank " << j;
      // Neighbours closer than the tolerance may change places.
      const double next = j + 1 < 20 ? prompt["top"][step][j + 1][1].get<double>() : -1e9;
      const double before = j > 0 ? prompt["top"][step][j - 1][1].get<double>() : 1e9;
      if (before - logprob > kTolerance && logprob - next > kTolerance && j + 1 < 20) {
        ASSERT_EQ(stream.top_ids[step * 20 + j], id) << "step " << step << " rank " << j;
      }
    }
    ASSERT_EQ(stream.logprobs[step], stream.top_logprobs[step * 20]);
  }
}

TEST_P(GoldenTest, GreedyIdsAndLogprobs) {
  Engine engine = f32_engine(model, isa);
  std::vector<Request> requests;
  for (const auto& prompt : golden["prompts"]) {
    Request request;
    request.prompt = prompt["prompt_ids"].get<std::vector<int32_t>>();
    request.max_tokens = 32;
    request.logprobs_k = 20;
    requests.push_back(std::move(request));
  }
  const auto streams = testing::generate(*engine.driver, requests, engine.options());
  ASSERT_TRUE(streams) << streams.error().to_string();
  for (size_t i = 0; i < requests.size(); ++i) compare_stream((*streams)[i], golden["prompts"][i]);
}

TEST_P(GoldenTest, LastPromptLogits) {
  Engine engine = f32_engine(model, isa);
  int compared = 0;
  for (const auto& prompt : golden["prompts"]) {
    if (!prompt.contains("last_prompt_logits_file") || prompt["last_prompt_logits_file"].is_null()) continue;
    step::testing::RowSpec row;
    row.tokens = prompt["prompt_ids"].get<std::vector<int32_t>>();
    row.samples = 1;
    for (int32_t page = 0; page < 32; ++page) row.pages.push_back(page);
    const auto result = engine.driver->run(step::testing::StagedStep(1, 0, {row}, 16, 32), Ask{.logits = true});
    ASSERT_TRUE(result) << result.error().to_string();
    const auto expected =
        testing::read_npy(testing::golden_path(model) + "/" + prompt["last_prompt_logits_file"].get<std::string>());
    ASSERT_GE(result->logits.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(result->logits[i], expected[i], kTolerance) << i;
    for (size_t i = expected.size(); i < result->logits.size(); ++i) ASSERT_EQ(result->logits[i], -INFINITY) << i;
    ++compared;
  }
  EXPECT_EQ(compared, 3);
}

TEST_P(GoldenTest, PromptLogprobsInChunks) {
  Engine engine = f32_engine(model, isa);
  const auto ids = golden["prompt_logprobs"]["prompt_ids"].get<std::vector<int32_t>>();
  const auto& expected = golden["prompt_logprobs"];
  size_t position = 0;
  for (const size_t chunk : {size_t{1}, size_t{63}, size_t{136}}) {
    step::testing::RowSpec row;
    row.tokens.assign(ids.begin() + static_cast<int64_t>(position),
                      ids.begin() + static_cast<int64_t>(position + chunk));
    row.start = static_cast<int64_t>(position);
    for (int32_t page = 0; page < 16; ++page) row.pages.push_back(page);
    for (size_t t = position; t < position + chunk; ++t) row.targets.push_back(t + 1 < ids.size() ? ids[t + 1] : -1);
    const auto result = engine.driver->run(step::testing::StagedStep(1, 0, {row}, 16, 16));
    ASSERT_TRUE(result) << result.error().to_string();
    for (size_t i = 0; i < chunk; ++i) {
      const size_t t = position + i + 1;
      if (t == ids.size()) {
        EXPECT_TRUE(std::isnan(result->score_logprobs[i]));
        EXPECT_EQ(result->score_ranks[i], 0);
        continue;
      }
      ASSERT_NEAR(result->score_logprobs[i], expected["logprobs"][t].get<double>(), kTolerance) << t;
      ASSERT_NEAR(result->score_ranks[i], expected["rank"][t].get<double>(), 2) << t;
    }
    position += chunk;
  }
  EXPECT_EQ(position, ids.size());
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest,
                         ::testing::Combine(::testing::Values("tiny-qwen3", "tiny-qwen3-untied", "tiny-qwen2",
                                                              "tiny-llama", "tiny-qwen3-yarn"),
                                            ::testing::ValuesIn(testing::available_isas())),
                         [](const auto& one) {
                           std::string name = std::get<0>(one.param) + "_" + std::get<1>(one.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

std::vector<float> normalised(std::vector<float> x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * v;
  for (float& v : x) v = static_cast<float>(v / std::sqrt(sum));
  return x;
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], kTolerance) << i;
}

TEST(GoldenPooled, LastAndMean) {
  Engine engine = f32_engine("tiny-qwen3", "");
  const auto golden = testing::read_json(testing::golden_path("tiny-qwen3") + "/golden.json");
  const auto pooled = testing::read_json(testing::golden_path("tiny-qwen3") + "/pooled.json");
  for (const auto& expected : pooled["rows"]) {
    SCOPED_TRACE(expected["name"].get<std::string>());
    std::vector<int32_t> ids;
    for (const auto& prompt : golden["prompts"]) {
      if (prompt["name"] == expected["name"]) ids = prompt["prompt_ids"].get<std::vector<int32_t>>();
    }
    ASSERT_FALSE(ids.empty());
    step::testing::RowSpec row;
    row.tokens = ids;
    row.pooling = step::Pooling::kLast;
    for (int32_t page = 0; page < 20; ++page) row.pages.push_back(page);
    step::testing::RowSpec mean = row;
    mean.pooling = step::Pooling::kMean;
    mean.pooling_slot = 3;
    for (int32_t& page : mean.pages) page += 100;
    const size_t hidden = 64;
    const size_t cut = ids.size() / 3;
    if (cut > 0) {  // the mean's first chunk alone
      step::testing::RowSpec first = mean;
      first.tokens.resize(cut);
      ASSERT_TRUE(engine.driver->run(step::testing::StagedStep(1, 0, {first}, 16, 20)));
      mean.tokens.erase(mean.tokens.begin(), mean.tokens.begin() + static_cast<int64_t>(cut));
      mean.start = static_cast<int64_t>(cut);
    }
    // Two rows do not fit one step of 512 tokens when the prompt is the longest one: last and mean go apart.
    const auto last = engine.driver->run(step::testing::StagedStep(2, 0, {row}, 16, 20));
    const auto rest = engine.driver->run(step::testing::StagedStep(3, 0, {mean}, 16, 20));
    ASSERT_TRUE(last && rest);
    const std::vector<float> raw(last->pooled.begin(), last->pooled.begin() + hidden);
    expect_near(normalised(raw), expected["last"].get<std::vector<float>>());
    expect_near(normalised({rest->pooled.begin(), rest->pooled.begin() + hidden}),
                expected["mean"].get<std::vector<float>>());
  }
}

}  // namespace
}  // namespace lockstep::backend
