// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_limits.h"

#include <algorithm>

#include "base/check.h"
#include "cpu/features.h"
#include "cpu/measure.h"
#include "cpu/thread_pool.h"
#include "ops/matmul_ceiling.h"

namespace lockstep::cli {
namespace {

template <class F>
void for_each_matrix(const loader::DecoderWeights& weights, F&& f) {
  for (const loader::LayerWeights& layer : weights.layers) {
    for (const loader::Projection* projection : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) {
      for (const loader::Projection::Part& part : projection->parts) f(part.matrix);
    }
  }
}

/// One step: `tokens` pass through the layers, `sampled` of them through the head, `pairs` (query, position) are
/// attended in each head, over `kv_tokens` tokens of K/V.
struct Step {
  double tokens, sampled, pairs, kv_tokens;
};

double step_seconds(const MachineLimits& limits, const BenchSubject& subject, const Step& step) {
  const files::ModelConfig& config = subject.config;
  const auto stage = [&limits](double bytes, double flop, double gflops) {
    return std::max(bytes / (limits.read_gbps * 1e9), flop / (gflops * 1e9));
  };
  const auto matmul = [&](const ops::Matrix& matrix, double rows) {
    return stage(static_cast<double>(matrix.bytes()), 2.0 * static_cast<double>(matrix.n() * matrix.k()) * rows,
                 limits.ceiling(matrix.format()));
  };
  double seconds = step.sampled > 0 ? matmul(subject.weights.head(), step.sampled) : 0;
  for_each_matrix(subject.weights, [&](const ops::Matrix& matrix) { seconds += matmul(matrix, step.tokens); });
  const double kv_bytes =
      static_cast<double>(config.kv_elements_per_token() * dtype_info(subject.kv_dtype).block_bytes) * step.kv_tokens;
  const double flop = 4.0 * static_cast<double>(config.num_layers * config.num_heads * config.head_dim) * step.pairs;
  return seconds + stage(kv_bytes, flop, limits.fma_f32_gflops);
}

}  // namespace

double MachineLimits::ceiling(kernels::WeightFormat format) const {
  const auto found = std::find_if(matmul.begin(), matmul.end(), [=](const auto& one) { return one.first == format; });
  LOCKSTEP_CHECK(found != matmul.end());
  return found->second;
}

Expected<MachineLimits> measure_limits(const backend::CpuBackend& backend) {
  MachineLimits limits;
  limits.cpu = cpu::cpu_name();
  limits.isa = backend.kernels().isa;
  limits.threads = backend.threads();
  cpu::ThreadPool pool(limits.threads, /*pin=*/true);
  LOCKSTEP_ASSIGN_OR_RETURN(limits.read_gbps, cpu::measure_read_gbps(pool));
  limits.fma_f32_gflops = cpu::measure_fma_gflops(pool);
  limits.int8_gops = cpu::measure_int8_gops(pool);
  const ops::Context context{&backend.kernels(), &pool};
  std::vector<const ops::Matrix*> formats;  // the first matrix of each
  const auto add = [&formats](const ops::Matrix& matrix) {
    const auto same = [&matrix](const ops::Matrix* other) { return other->format() == matrix.format(); };
    if (std::none_of(formats.begin(), formats.end(), same)) formats.push_back(&matrix);
  };
  for_each_matrix(backend.weights(), add);
  add(backend.weights().head());
  for (const ops::Matrix* matrix : formats) {
    LOCKSTEP_ASSIGN_OR_RETURN(const double gflops, ops::measure_matmul_ceiling(context, *matrix));
    limits.matmul.emplace_back(matrix->format(), gflops);
  }
  return limits;
}

double limit_ms(const MachineLimits& limits, const BenchSubject& subject, const BenchTest& test) {
  if (!test.prefill) {
    const auto rows = static_cast<double>(test.rows);
    const double attended = rows * static_cast<double>(middle_context(test));
    return 1e3 * step_seconds(limits, subject, {rows, rows, attended, attended});
  }
  double seconds = 0;
  for (int64_t first = 0; first < test.tokens; first += subject.chunk_tokens) {
    const int64_t end = std::min(test.tokens, first + subject.chunk_tokens);
    const double pairs = static_cast<double>(end * (end + 1) - first * (first + 1)) / 2;
    seconds += step_seconds(
        limits, subject,
        {static_cast<double>(end - first), end == test.tokens ? 1.0 : 0.0, pairs, static_cast<double>(end)});
  }
  return 1e3 * seconds;
}

}  // namespace lockstep::cli
