// SPDX-License-Identifier: Apache-2.0
// What the machine can do, and the time that it leaves for a test: docs/performance.md.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/status.h"
#include "cli/bench_run.h"
#include "files/model_config.h"
#include "loader/weights.h"

namespace lockstep::cli {

/// Measured in one go, before the tests.
struct MachineLimits {
  std::string cpu;
  std::string isa;  ///< of the kernels
  int threads = 0;
  double read_gbps = 0;       ///< R
  double fma_f32_gflops = 0;  ///< F
  double int8_gops = 0;       ///< cpu::measure_int8_gops
  std::vector<std::pair<kernels::WeightFormat, double>>
      matmul;  ///< a format and its kernel's ceiling in cache [GFLOP/s]

  /// Of a format that the model has.
  double ceiling(kernels::WeightFormat format) const;
};

/// Uses a pool of as many threads as the backend's, which must be idle. Takes about a second. kResourceExhausted names
/// the buffer.
Expected<MachineLimits> measure_limits(const backend::CpuBackend& backend);

/// What a test works on.
struct BenchSubject {
  const files::ModelConfig& config;
  const loader::DecoderWeights& weights;
  DType kv_dtype;
  int64_t chunk_tokens;  ///< most prompt tokens of a step
};

/// Milliseconds of a decode step, or of a whole prefill, if each stage (the matmuls of a layer, its attention, the
/// head) took the longer of its bytes at R and its operations at its ceiling: a matmul's of its format, attention's F.
double limit_ms(const MachineLimits& limits, const BenchSubject& subject, const BenchTest& test);

}  // namespace lockstep::cli
