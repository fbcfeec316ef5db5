// SPDX-License-Identifier: Apache-2.0
// Shapes of Qwen3-0.6B. Compare lines of one run: the machine is shared. `--benchmark_filter=Head` and so on.
#include <numeric>

#include "benchmark/benchmark.h"
#include "ops/attention.h"
#include "ops/head.h"
#include "ops/head_test_support.h"

namespace lockstep::ops {
namespace {

using testing::Engine;
using testing::Random;

const kernels::KernelTable* best() { return *kernels::select_kernels(""); }

/// Arguments: dtype, rows, threads.
void matmul_gate_up(benchmark::State& state) {
  constexpr int64_t kN = 6144, kK = 1024;
  const auto dtype = static_cast<DType>(state.range(0));
  const int64_t m = state.range(1);
  Engine engine(best(), static_cast<int>(state.range(2)));
  const Matrix w = testing::pack(engine.ctx, testing::random_source(dtype, kN, kK, 1), *native_format(dtype));
  const std::vector<float> x = Random(2).normals(m * kK);
  std::vector<float> out(static_cast<size_t>(m * kN));
  QuantizedRows quantized = std::move(*QuantizedRows::create(m, kK));
  const View<const float> rows = testing::view(x, m, kK);
  for ([[maybe_unused]] auto _ : state) {
    if (kernels::has_rounded_activations(w.format()))
      quantize_rows(engine.ctx, kernels::activations_of(w.format()), rows, quantized, {});
    matmul(engine.ctx, w, rows, quantized, testing::view(out, m, kN));
  }
  state.SetLabel(std::string(to_string(dtype)) + " " + std::string(best()->isa));
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(m * kN * kK), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] =
      benchmark::Counter(1e-9 * static_cast<double>(w.bytes()), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(matmul_gate_up)
    ->ArgsProduct({{static_cast<int64_t>(DType::kBF16), static_cast<int64_t>(DType::kQ8_0),
                    static_cast<int64_t>(DType::kQ4_1)},
                   {1, 16, 512},
                   {1, 2}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

/// One layer at 3338 positions. Arguments: rows, queries of each row, threads.
void attention(benchmark::State& state) {
  constexpr int64_t kHeads = 16, kKvHeads = 8, kDim = 128, kLength = 3338, kBlocks = (kLength + 15) / 16;
  const int64_t rows = state.range(0), queries = state.range(1);
  Engine engine(best(), static_cast<int>(state.range(2)));
  const step::KvGeometry kv = {1, kKvHeads, kDim, 16, rows * kBlocks, DType::kBF16};
  std::vector<uint16_t> pool(static_cast<size_t>(kv.total_bytes() / 2), f32_to_bf16(0.01f));
  auto* const bytes = reinterpret_cast<std::byte*>(pool.data());
  const KvLayer layer = {bytes, bytes + kv.total_bytes() / 2};
  std::vector<int32_t> table(static_cast<size_t>(kv.num_blocks)), offsets = {0};
  std::iota(table.begin(), table.end(), 0);
  for (int64_t r = 0; r < rows; ++r) offsets.push_back(static_cast<int32_t>((r + 1) * queries));
  const std::vector<int32_t> query_lens(static_cast<size_t>(rows), static_cast<int32_t>(queries));
  const std::vector<int32_t> seq_lens(static_cast<size_t>(rows), static_cast<int32_t>(kLength));
  const std::vector<int32_t> slots(static_cast<size_t>(rows * queries), 0);
  const AttentionRows plan = {testing::view1(query_lens), testing::view1(seq_lens), testing::view1(offsets),
                              View<const int32_t>(table.data(), {rows, kBlocks}), testing::view1(slots)};
  const std::vector<float> q = Random(3).normals(rows * queries * kHeads * kDim);
  std::vector<float> out(q.size());
  auto scratch = std::move(*AttentionScratch::create(engine.pool.size(), rows, rows * queries, kLength, kHeads, kDim));
  for ([[maybe_unused]] auto _ : state) {
    attend(engine.ctx, kv, layer, plan, 0.088f, kHeads, testing::view(q, rows * queries, kHeads * kDim), scratch,
           testing::view(out, rows * queries, kHeads * kDim));
  }
  const auto pairs = static_cast<double>(rows * queries * (kLength - queries / 2));
  state.counters["GFLOP/s"] =
      benchmark::Counter(4e-9 * pairs * kHeads * kDim, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] = benchmark::Counter(1e-9 * static_cast<double>(rows * kLength * kKvHeads * kDim * 4),
                                              benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(attention)
    ->Args({1, 1, 1})
    ->Args({1, 1, 2})
    ->Args({16, 1, 1})
    ->Args({16, 1, 2})
    ->Args({1, 512, 2})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

/// 16 rows of 151,936 ids; hidden is narrow (128), so that the difference between the lines is the choice's own cost.
void head_choice(benchmark::State& state, const char* name, testing::RowParams params) {
  constexpr int64_t kVocab = 151936, kHidden = 128, kRows = 16;
  Engine engine(best(), static_cast<int>(state.range(0)));
  static const Matrix head =
      testing::pack(engine.ctx, testing::random_source(DType::kBF16, kVocab, kHidden, 4), kernels::WeightFormat::kBF16);
  const std::vector<float> hidden = Random(5).normals(kRows * kHidden, 0.35f);  // logits spread by about 4
  QuantizedRows quantized = std::move(*QuantizedRows::create(kRows, kHidden));
  HeadScratch scratch = std::move(*HeadScratch::create(engine.pool.size(), kRows, kVocab, kHidden));
  const testing::Sampling sampling(std::vector<testing::RowParams>(kRows, params));
  std::vector<SampledPosition> positions;
  for (int32_t r = 0; r < kRows; ++r) positions.push_back({r, r});
  std::vector<int32_t> ids(kRows);
  HeadOutputs out;
  out.ids = View<int32_t>(ids.data(), {kRows});
  const auto step = [&] {
    head_and_choose(engine.ctx, head, testing::view(hidden, kRows, kHidden), quantized, positions, sampling.view(),
                    scratch, out);
    for (SampledPosition& p : positions) ++p.position;
  };
  step();  // touches the scratch
  for ([[maybe_unused]] auto _ : state) step();
  state.SetLabel(name);
}
void head_greedy(benchmark::State& state) { head_choice(state, "greedy", {}); }
void head_logprobs(benchmark::State& state) { head_choice(state, "greedy, 20 logprobs", {.logprobs_k = 20}); }
void head_plain(benchmark::State& state) { head_choice(state, "temperature 1", {.temperature = 1}); }
void head_top_p(benchmark::State& state) { head_choice(state, "top_p 0.95", {.temperature = 1, .top_p = 0.95f}); }
void head_top_k(benchmark::State& state) {
  head_choice(state, "top_k 20, top_p 0.95", {.temperature = 0.6f, .top_k = 20, .top_p = 0.95f});
}
BENCHMARK(head_greedy)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(head_logprobs)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(head_plain)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(head_top_p)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(head_top_k)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lockstep::ops
