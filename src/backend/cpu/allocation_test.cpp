// SPDX-License-Identifier: Apache-2.0
// A steady step allocates nothing: operator new is counted in all threads of this program.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "backend/cpu/golden_support.h"

namespace {
std::atomic<int64_t> allocations{0};

void* counted(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace lockstep::backend {
namespace {

using step::testing::RowSpec;
using step::testing::StagedStep;

/// Step `number` of 16 decode rows: greedy, sampled, with logprobs, scored and pooled ones, one idle, fed on the
/// device.
StagedStep steady_step(uint64_t number) {
  std::vector<RowSpec> rows;
  for (int32_t r = 0; r < 16; ++r) {
    RowSpec row;
    row.tokens = {r};
    row.start = static_cast<int64_t>(number) - 1;
    row.idle = r == 3;
    row.samples = row.idle ? 0 : 1;
    row.source = number > 1 && r != 3 && r != 4 ? r : -1;
    row.logprobs_k = r % 5;
    row.temperature = r % 3 == 0 ? 0.0f : 0.7f;
    row.seed = static_cast<uint64_t>(r);
    row.pages = {2 * r, 2 * r + 1};
    if (r == 4) row.pooling = step::Pooling::kMean;
    row.targets = {r == 5 ? 17 : -1};
    rows.push_back(std::move(row));
  }
  return StagedStep(number, 16, rows, 16, 2);
}

class SteadyStep : public ::testing::TestWithParam<loader::WeightsMode> {};

TEST_P(SteadyStep, AllocatesNothing) {
  CpuBackendOptions options;
  options.weights = GetParam();
  options.threads = 2;
  testing::Engine engine =
      testing::make_engine(testing::open_golden("tiny-qwen3-untied"), options, testing::test_shape(DType::kBF16), 32);
  std::vector<StagedStep> steps;
  for (uint64_t number = 1; number <= 32; ++number) steps.push_back(steady_step(number));
  std::vector<step::StepOutputs> outputs;
  for (const StagedStep& one : steps)
    outputs.push_back(engine.driver->outputs(one, {.logits = true, .next_hidden = true}));
  int64_t before = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i == 4) before = allocations.load();
    const auto ticket = engine.backend->submit(steps[i].args, outputs[i]);
    ASSERT_TRUE(ticket) << ticket.error().to_string();
    ASSERT_TRUE(engine.backend->wait(*ticket).ok());
  }
  EXPECT_EQ(allocations.load() - before, 0);
}

INSTANTIATE_TEST_SUITE_P(Weights, SteadyStep,
                         ::testing::Values(loader::WeightsMode::kNative, loader::WeightsMode::kF32),
                         [](const auto& one) { return std::string(loader::to_string(one.param)); });

}  // namespace
}  // namespace lockstep::backend
