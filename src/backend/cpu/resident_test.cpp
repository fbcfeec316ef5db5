// SPDX-License-Identifier: Apache-2.0
// Warm-up books all memory: what it reports is resident when it returns, and the largest step adds nothing to it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "backend/cpu/golden_support.h"

namespace lockstep::backend {
namespace {

using step::testing::RowSpec;
using step::testing::StagedStep;

int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  in >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

StepShape large_shape() {
  StepShape shape;
  shape.max_num_seqs = 256;
  shape.max_num_batched_tokens = 4096;
  shape.max_model_len = 512;
  return shape;
}

/// All rows with 16 tokens each, drawn from a nucleus with the most logprobs, all positions scored, means pooled.
StagedStep largest_step(const StepShape& shape) {
  std::vector<RowSpec> rows;
  for (int32_t r = 0; r < shape.max_num_seqs; ++r) {
    RowSpec row;
    for (int32_t i = 0; i < 16; ++i) {
      row.tokens.push_back((r + i) % 60);
      row.targets.push_back(i);
    }
    row.samples = 1;
    row.logprobs_k = step::kMaxLogprobs;
    row.temperature = 0.9f;
    row.seed = static_cast<uint64_t>(r);
    row.pages = {r};
    rows.push_back(std::move(row));
  }
  return StagedStep(1, 0, rows, 16, 1);
}

TEST(Resident, WarmUpBooksWhatItReportsAndStepsAddNothing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow memory grows with what is touched";
#endif
  constexpr int64_t kSlack = int64_t{1} << 20;  // the allocator's and the test's own
  const StepShape shape = large_shape();
  CpuBackendOptions options;
  options.threads = 2;
  auto loaded = CpuBackend::load(testing::open_golden("tiny-qwen3"), options);
  ASSERT_TRUE(loaded) << loaded.error().to_string();
  CpuBackend& backend = **loaded;

  const int64_t before = resident_bytes();
  ASSERT_TRUE(backend.warm_up(shape).ok());
  const int64_t warm = resident_bytes();
  const int64_t scratch = backend.memory().scratch_bytes;
  ASSERT_GT(scratch, 16 * kSlack) << "too small to tell";
  EXPECT_GE(warm - before, scratch - kSlack);

  const Capabilities caps = backend.capabilities();
  const step::KvGeometry kv{.num_layers = caps.num_layers,
                            .num_kv_heads = caps.num_kv_heads,
                            .head_dim = caps.head_dim,
                            .block_size = 16,
                            .num_blocks = shape.max_num_seqs,
                            .dtype = shape.kv_dtype};
  ASSERT_TRUE(backend.allocate_kv(kv).ok());
  testing::StepDriver driver(backend, shape);
  const StagedStep staged = largest_step(shape);
  const step::StepOutputs outputs = driver.outputs(staged, {});
  const int64_t ready = resident_bytes();
  const auto ticket = backend.submit(staged.args, outputs);
  ASSERT_TRUE(ticket) << ticket.error().to_string();
  ASSERT_TRUE(backend.wait(*ticket).ok());
  EXPECT_LE(resident_bytes() - ready, kv.total_bytes() + kSlack);
}

}  // namespace
}  // namespace lockstep::backend
