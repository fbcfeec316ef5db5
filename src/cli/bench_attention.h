// SPDX-License-Identifier: Apache-2.0
// Paged against contiguous attention over whole steps, in interleaved pairs within one process.
#pragma once

#include <functional>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/statistics.h"
#include "cli/bench_run.h"

namespace lockstep::cli {

struct AttentionComparison {
  double paged_ms = 0, contiguous_ms = 0;  ///< medians of a run's timed steps together
  Interval ratio;                          ///< paged / contiguous of a pair: median and its 95% interval
};

/// Runs each test `pairs` times with each attention, one after the other, which of them first in turn, so that a slow
/// moment meets both. `backend` is the engine's, made with Attention::kContiguous. `on_run` is called after each run.
Expected<std::vector<AttentionComparison>> compare_attention(engine::Engine& engine, backend::CpuBackend& backend,
                                                             StepRecorder& recorder, int64_t vocab_size,
                                                             const std::vector<BenchTest>& tests, int pairs,
                                                             const std::function<void()>& on_run);

}  // namespace lockstep::cli
