// SPDX-License-Identifier: Apache-2.0
// One benchmark test: what it is, how it runs through the engine, and what its figures mean.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"
#include "files/model_config.h"
#include "loader/weights.h"

namespace lockstep::cli {

/// prefill:N = one row, N tokens, empty context; decode:R@C = R rows that start at context C.
struct BenchTest {
  bool prefill = false;
  int64_t rows = 1;
  int64_t tokens = 0;   ///< prefill: of the prompt; decode: 1 a row and step
  int64_t context = 0;  ///< decode: tokens before the first timed step
};

/// "prefill:512,decode:1@128". Errors name the item and what is expected.
Expected<std::vector<BenchTest>> parse_bench_tests(std::string_view text);

inline constexpr int64_t kTimedDecodeSteps = 64;

/// Steps of one run, in milliseconds: of a decode test the timed steps, of a prefill the sum over its chunks.
struct BenchSamples {
  std::vector<double> step_ms;
  std::vector<double> backend_ms;
  std::vector<double> host_ms;  ///< the engine's own work, most of it while the backend is busy
};

/// Collects the engine's step reports (EngineOptions::on_step). Thread-safe.
class StepRecorder {
 public:
  StepRecorder();
  ~StepRecorder();
  std::function<void(const engine::StepReport&)> observer() const;
  std::vector<engine::StepReport> take();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// Runs the test once on an idle engine and appends its samples. Prompts are pseudo-random ids.
Status run_bench_test(engine::Engine& engine, StepRecorder& recorder, int64_t vocab_size, const BenchTest& test,
                      BenchSamples& samples);

/// Floating-point operations of the prefill (two a multiply-add), attention and one head row included.
double prefill_flop(const files::ModelConfig& config, int64_t tokens);
/// Bytes a decode step reads: the matmul weights as held (the head once) and the K/V of all rows at the middle of the
/// timed steps.
double decode_bytes(const files::ModelConfig& config, const loader::DecoderWeights& weights, DType kv_dtype,
                    const BenchTest& test);

}  // namespace lockstep::cli
