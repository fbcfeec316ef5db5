// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_attention.h"

#include <numeric>

namespace lockstep::cli {
namespace {

using backend::Attention;

/// Milliseconds of the timed steps of each run.
struct Pairs {
  std::vector<double> paged, contiguous;
};

AttentionComparison figures_of(const Pairs& pairs) {
  std::vector<double> ratios(pairs.paged.size());
  for (size_t i = 0; i < ratios.size(); ++i) ratios[i] = pairs.paged[i] / pairs.contiguous[i];
  return {median(pairs.paged), median(pairs.contiguous), median_interval(ratios)};
}

}  // namespace

Expected<std::vector<AttentionComparison>> compare_attention(engine::Engine& engine, backend::CpuBackend& backend,
                                                             StepRecorder& recorder, int64_t vocab_size,
                                                             const std::vector<BenchTest>& tests, int pairs,
                                                             const std::function<void()>& on_run) {
  const auto run = [&](const BenchTest& test, Attention attention, std::vector<double>& out) -> Status {
    LOCKSTEP_RETURN_IF_ERROR(backend.use_attention(attention));
    BenchSamples samples;
    LOCKSTEP_RETURN_IF_ERROR(run_bench_test(engine, recorder, vocab_size, test, samples));
    out.push_back(std::accumulate(samples.step_ms.begin(), samples.step_ms.end(), 0.0));
    on_run();
    return {};
  };
  std::vector<Pairs> measured(tests.size());
  for (int pair = 0; pair < pairs; ++pair) {
    const bool paged_first = pair % 2 == 0;
    for (size_t i = 0; i < tests.size(); ++i) {
      if (paged_first) LOCKSTEP_RETURN_IF_ERROR(run(tests[i], Attention::kPaged, measured[i].paged));
      LOCKSTEP_RETURN_IF_ERROR(run(tests[i], Attention::kContiguous, measured[i].contiguous));
      if (!paged_first) LOCKSTEP_RETURN_IF_ERROR(run(tests[i], Attention::kPaged, measured[i].paged));
    }
  }
  std::vector<AttentionComparison> out;
  out.reserve(measured.size());
  for (const Pairs& one : measured) out.push_back(figures_of(one));
  return out;
}

}  // namespace lockstep::cli
