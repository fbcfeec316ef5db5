// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_run.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <mutex>

#include "base/random.h"
#include "cli/run_requests.h"

namespace lockstep::cli {
namespace {

/// Steps that run before the timed ones: caches and the asynchronous pipeline settle.
constexpr int64_t kUntimedDecodeSteps = 4;

Expected<int64_t> parse_count(std::string_view text, std::string_view item) {
  int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size() || value < 1) {
    return invalid_argument("--tests: '{}' in '{}' is not a positive number", text, item);
  }
  return value;
}

Expected<BenchTest> parse_test(std::string_view item) {
  BenchTest test;
  if (item.starts_with("prefill:")) {
    test.prefill = true;
    LOCKSTEP_ASSIGN_OR_RETURN(test.tokens, parse_count(item.substr(8), item));
    return test;
  }
  const size_t at = item.find('@');
  if (!item.starts_with("decode:") || at == std::string_view::npos) {
    return invalid_argument("--tests: '{}' is neither prefill:TOKENS nor decode:ROWS@CONTEXT", item);
  }
  LOCKSTEP_ASSIGN_OR_RETURN(test.rows, parse_count(item.substr(7, at - 7), item));
  LOCKSTEP_ASSIGN_OR_RETURN(test.context, parse_count(item.substr(at + 1), item));
  test.tokens = test.rows;
  return test;
}

/// Ids that differ between rows, so that no row can share another's pages.
std::vector<int32_t> random_prompt(int64_t tokens, int64_t row, int64_t vocab_size) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens));
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto draw = philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {static_cast<uint32_t>(row), 0})[0];
    ids[i] = static_cast<int32_t>(draw % static_cast<uint64_t>(vocab_size));
  }
  return ids;
}

std::vector<request::Request> bench_requests(const BenchTest& test, int64_t vocab_size) {
  std::vector<request::Request> requests(static_cast<size_t>(test.rows));
  for (int64_t row = 0; row < test.rows; ++row) {
    request::Request& request = requests[static_cast<size_t>(row)];
    request.prompt_token_ids = random_prompt(test.prefill ? test.tokens : test.context, row, vocab_size);
    request.sampling.ignore_eos = true;
    // The first id comes with the prompt's last chunk; rows that start early wait for the last with further tokens.
    request.sampling.max_tokens = test.prefill ? 1 : 1 + kUntimedDecodeSteps + kTimedDecodeSteps + 4 * test.rows;
  }
  return requests;
}

void add_prefill_samples(const std::vector<engine::StepReport>& steps, BenchSamples& samples) {
  double wall = 0;
  double backend = 0;
  double host = 0;
  for (const engine::StepReport& step : steps) {
    if (step.rows == 0) continue;
    wall += step.step_wall_s;
    backend += step.backend_wall_s;
    host += step.host_s();
  }
  samples.step_ms.push_back(wall * 1e3);
  samples.backend_ms.push_back(backend * 1e3);
  samples.host_ms.push_back(host * 1e3);
}

Status add_decode_samples(const std::vector<engine::StepReport>& steps, const BenchTest& test, BenchSamples& samples) {
  int64_t full_steps = 0;
  for (const engine::StepReport& step : steps) {
    if (step.decode_rows != test.rows || step.tokens != test.rows) continue;
    ++full_steps;
    if (full_steps <= kUntimedDecodeSteps || full_steps > kUntimedDecodeSteps + kTimedDecodeSteps) continue;
    samples.step_ms.push_back(step.step_wall_s * 1e3);
    samples.backend_ms.push_back(step.backend_wall_s * 1e3);
    samples.host_ms.push_back(step.host_s() * 1e3);
  }
  if (full_steps < kUntimedDecodeSteps + kTimedDecodeSteps) {
    return error(StatusCode::kResourceExhausted,
                 "decode:{}@{}: only {} steps had all rows; raise --max-num-seqs or the KV pool", test.rows,
                 test.context, full_steps);
  }
  return {};
}

}  // namespace

struct StepRecorder::Shared {
  std::mutex mutex;
  std::vector<engine::StepReport> steps;
};

StepRecorder::StepRecorder() : shared_(std::make_shared<Shared>()) {}
StepRecorder::~StepRecorder() = default;

std::function<void(const engine::StepReport&)> StepRecorder::observer() const {
  return [shared = shared_](const engine::StepReport& step) {
    const std::lock_guard lock(shared->mutex);
    shared->steps.push_back(step);
  };
}

std::vector<engine::StepReport> StepRecorder::take() {
  const std::lock_guard lock(shared_->mutex);
  return std::exchange(shared_->steps, {});
}

Expected<std::vector<BenchTest>> parse_bench_tests(std::string_view text) {
  std::vector<BenchTest> tests;
  while (true) {
    const size_t comma = text.find(',');
    LOCKSTEP_ASSIGN_OR_RETURN(tests.emplace_back(), parse_test(text.substr(0, comma)));
    if (comma == std::string_view::npos) return tests;
    text.remove_prefix(comma + 1);
  }
}

Status run_bench_test(engine::Engine& engine, StepRecorder& recorder, int64_t vocab_size, const BenchTest& test,
                      BenchSamples& samples) {
  recorder.take();
  LOCKSTEP_ASSIGN_OR_RETURN(const auto results, run_requests(engine, bench_requests(test, vocab_size)));
  for (const RequestResult& result : results) LOCKSTEP_RETURN_IF_ERROR(result.error);
  const auto steps = recorder.take();
  if (!test.prefill) return add_decode_samples(steps, test, samples);
  add_prefill_samples(steps, samples);
  return {};
}

double prefill_flop(const files::ModelConfig& config, int64_t tokens) {
  const auto t = static_cast<double>(tokens);
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto q_width = static_cast<double>(config.num_heads * config.head_dim);
  const auto kv_width = static_cast<double>(config.num_kv_heads * config.head_dim);
  const double layer =
      hidden * (q_width + 2 * kv_width) + q_width * hidden + 3 * hidden * static_cast<double>(config.intermediate_size);
  const double attention = 2 * q_width * t * (t + 1) / 2;  // multiply-adds of scores and of P.V
  const double head = hidden * static_cast<double>(config.vocab_size);
  return 2 * (static_cast<double>(config.num_layers) * (layer * t + attention) + head);
}

double decode_bytes(const files::ModelConfig& config, const loader::DecoderWeights& weights, DType kv_dtype,
                    const BenchTest& test) {
  int64_t bytes = weights.head().bytes();
  for (const loader::LayerWeights& layer : weights.layers) {
    bytes += layer.qkv.bytes() + layer.o.bytes() + layer.gate_up.bytes() + layer.down.bytes();
  }
  const int64_t context = test.context + kUntimedDecodeSteps + kTimedDecodeSteps / 2;
  return static_cast<double>(bytes) +
         static_cast<double>(test.rows * context * config.kv_elements_per_token() * dtype_info(kv_dtype).block_bytes);
}

}  // namespace lockstep::cli
