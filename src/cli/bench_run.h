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
  int64_t tokens = 0;                     ///< prefill: of the prompt; decode: 1 a row and step
  int64_t context = 0;                    ///< decode: tokens before the first step
  int64_t steps = 64;                     ///< decode: timed ones of a run
  request::SamplingParams sampling = {};  ///< of all rows; max_tokens and end tokens are the test's
};

/// "prefill:512,decode:1@128". Errors name the item and what is expected.
Expected<std::vector<BenchTest>> parse_bench_tests(std::string_view text);

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
  /// The reports since the last call, once they tell of `tokens` tokens in all: the last step's report comes after the
  /// events that end its requests.
  std::vector<engine::StepReport> take(int64_t tokens = 0);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

/// Tokens of K/V that a row of the test needs, without what blocks add by rounding up.
int64_t positions_of(const BenchTest& test);

/// Runs the test once on an idle engine without prefix caching and appends its samples. Prompts are pseudo-random ids;
/// decode rows start at their context over pages as they are (CpuBackend::fill_kv).
Status run_bench_test(engine::Engine& engine, StepRecorder& recorder, int64_t vocab_size, const BenchTest& test,
                      BenchSamples& samples);

/// Of a decode test, the tokens before the middle one of its timed steps.
int64_t middle_context(const BenchTest& test);
/// Floating-point operations of the prefill (two a multiply-add), attention and one head row included.
double prefill_flop(const files::ModelConfig& config, int64_t tokens);
/// Bytes a decode step reads: the matmul weights as held (the head once) and the K/V of all rows at the middle of the
/// timed steps.
double decode_bytes(const files::ModelConfig& config, const loader::DecoderWeights& weights, DType kv_dtype,
                    const BenchTest& test);

}  // namespace lockstep::cli
