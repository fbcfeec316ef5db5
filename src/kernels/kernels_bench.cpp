// SPDX-License-Identifier: Apache-2.0
// Matmuls and attention of each table at the shapes of Qwen3-0.6B. Counters: GB/s of weights (or K and V), GFLOP/s, and
// their shares of what this machine can do with as many threads, measured at start. Weights rotate over more memory
// than the caches hold.
//   kernels_bench --benchmark_filter='avx2/bf16.*m:512'
#include <benchmark/benchmark.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "cpu/features.h"
#include "cpu/measure.h"
#include "cpu/thread_pool.h"
#include "kernels/isa_tables.h"
#include "kernels/kernel_cases.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kWorkingSet = 160 << 20;

struct Machine {
  explicit Machine(int threads) : pool(threads, /*pin=*/true), fma_gflops(cpu::measure_fma_gflops(pool)) {
    read_gbps = cpu::measure_read_gbps(pool).value_or(0.0);
  }
  cpu::ThreadPool pool;
  double fma_gflops;
  double read_gbps = 0.0;
};

Machine& machine(int threads) {
  static std::map<int, std::unique_ptr<Machine>> machines;
  std::unique_ptr<Machine>& entry = machines[threads];
  if (!entry) entry = std::make_unique<Machine>(threads);
  return *entry;
}

void report(benchmark::State& state, const Machine& m, double bytes, double flops) {
  const auto rate = [&](double amount) {
    return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["GB/s"] = rate(bytes * 1e-9);
  state.counters["GFLOP/s"] = rate(flops * 1e-9);
  state.counters["of_R"] = rate(bytes * 1e-9 / m.read_gbps);
  state.counters["of_F"] = rate(flops * 1e-9 / m.fma_gflops);
}

struct Shape {
  int64_t m, n, k;
};

void bench_matmul(benchmark::State& state, const KernelTable* table, WeightFormat format, Shape shape, int threads) {
  Machine& box = machine(threads);
  const MatmulCase one(format, shape.m, shape.n, shape.k, 1);
  const int64_t bytes = packed_bytes(format, shape.n, shape.k);
  const int64_t copies = shape.m <= 16 ? std::max<int64_t>(1, kWorkingSet / bytes) : 1;
  std::vector<std::byte> weights(static_cast<size_t>(bytes * copies + 64));
  std::byte* base = weights.data() + (64 - reinterpret_cast<uintptr_t>(weights.data()) % 64);
  for (int64_t i = 0; i < copies; ++i) std::copy(one.weights.begin(), one.weights.end(), base + i * bytes);
  std::vector<float> out(static_cast<size_t>(shape.m * shape.n));
  const int64_t row_block = std::min<int64_t>(shape.m, 192);
  const int64_t column_block = shape.m <= 16 ? 64 : 256;
  const int64_t row_pieces = (shape.m + row_block - 1) / row_block;
  const int64_t column_pieces = (shape.n + column_block - 1) / column_block;
  int64_t copy = 0;
  for (auto _ : state) {
    const std::byte* matrix = base + copy * bytes;
    copy = (copy + 1) % copies;
    box.pool.parallel_for(row_pieces * column_pieces, [&](int64_t piece, int) {
      const int64_t row = piece / column_pieces * row_block;
      const int64_t column = piece % column_pieces * column_block;
      table->matmul[static_cast<int>(format)](
          {.weights = matrix + column / kPanelColumns * panel_bytes(format, shape.k),
           .n = std::min(column_block, shape.n - column),
           .k = shape.k,
           .m = std::min(row_block, shape.m - row),
           .x = one.x.data() + row * shape.k,
           .x_stride = shape.k,
           .xq = one.xq.data() + (one.xq.empty() ? 0 : row * one.xq_stride),
           .xq16 = one.xq16.data() + (one.xq16.empty() ? 0 : row * one.xq_stride),
           .xb16 = one.xb16.data() + (one.xb16.empty() ? 0 : row * one.xq_stride),
           .xq_stride = one.xq_stride,
           .x_scale = one.x_scale.data() + row * one.group_stride,
           .x_sum = one.x_sum.data() + row * one.group_stride,
           .group_stride = one.group_stride,
           .out = out.data() + row * shape.n + column,
           .out_stride = shape.n});
    });
    benchmark::DoNotOptimize(out.data());
  }
  report(state, box, static_cast<double>(bytes), 2.0 * static_cast<double>(shape.m * shape.n * shape.k));
}

void bench_attention(benchmark::State& state, const KernelTable* table, KvDType dtype, int64_t rows, int64_t dim) {
  Machine& box = machine(1);
  const AttendCase test(dtype, dim, std::vector<int32_t>(static_cast<size_t>(rows), 512), 1);
  std::vector<const void*> k, v;
  for (const auto& tile : test.k_tiles) k.push_back(tile.data());
  for (const auto& tile : test.v_tiles) v.push_back(tile.data());
  std::vector<float> scratch(kMaxQueryRows * kSegmentPositions), acc(static_cast<size_t>(rows * dim)),
      max(static_cast<size_t>(rows)), sum = max;
  const AttendArgs args{.rows = rows,
                        .dim = dim,
                        .q = test.q.data(),
                        .q_stride = dim,
                        .lengths = test.lengths.data(),
                        .k_tiles = k.data(),
                        .v_tiles = v.data(),
                        .scratch = scratch.data(),
                        .out_max = max.data(),
                        .out_sum = sum.data(),
                        .out_acc = acc.data()};
  for (auto _ : state) {
    table->attend_segment[static_cast<int>(dtype)](args);
    benchmark::DoNotOptimize(acc.data());
  }
  report(state, box, static_cast<double>(2 * 512 * dim * kv_dtype_bytes(dtype)),
         4.0 * static_cast<double>(rows * 512 * dim));
}

std::vector<const KernelTable*> tables() {
  const cpu::Features features = cpu::detect_features();
  std::vector<const KernelTable*> out;
  if (features.avx2 && features.fma && features.f16c) out.push_back(&avx2_table());
  if (features.avx512) out.push_back(&avx512_table());
  if (features.avx512_vnni) out.push_back(&avx512vnni_table());
  if (features.avx512_vnni && features.avx512_bf16) out.push_back(&avx512bf16_table());
  return out;
}

void register_all() {
  const int cores = cpu::available_cores();
  for (const KernelTable* table : tables()) {
    const std::string isa(table->isa);
    for (int format = 0; format < kNumWeightFormats; ++format) {
      const auto weights = static_cast<WeightFormat>(format);
      for (const int threads : {1, cores}) {
        for (const int64_t m : {1, 2, 4, 6, 8, 16, 64, 512}) {
          for (const auto& [n, k] : {std::pair<int64_t, int64_t>{3072, 1024}, {1024, 3072}}) {
            const std::string name = isa + "/" + std::string(to_string(weights)) + "/t:" + std::to_string(threads) +
                                     "/n:" + std::to_string(n) + "/k:" + std::to_string(k) + "/m:" + std::to_string(m);
            const Shape shape{m, n, k};
            auto* one = benchmark::RegisterBenchmark(
                name.c_str(), [=](benchmark::State& s) { bench_matmul(s, table, weights, shape, threads); });
            if (threads > 1)
              one->UseRealTime();  // one thread is timed by its processor time: steadier on a busy machine
          }
        }
        if (cores == 1) break;
      }
    }
    for (const KvDType dtype : {KvDType::kBF16, KvDType::kF32}) {
      for (const int64_t rows : {1, 2, 3, 4, 8, 16}) {
        const std::string name =
            isa + "/attend_" + (dtype == KvDType::kBF16 ? "bf16" : "f32") + "/dim:128/rows:" + std::to_string(rows);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& s) { bench_attention(s, table, dtype, rows, 128); });
      }
    }
  }
}

const bool registered = (register_all(), true);

}  // namespace
}  // namespace lockstep::kernels
