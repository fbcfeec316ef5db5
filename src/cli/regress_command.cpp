// SPDX-License-Identifier: Apache-2.0
// The regression that the re-created system once failed: identical long prompts in one batch must give identical
// streams. Copying row 0 into idle rows made several lanes write one KV slot, and all streams came out as zeros.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "base/random.h"
#include "cli/bench_run.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/exactness.h"
#include "cli/exit_code.h"
#include "cli/local_model.h"
#include "cli/json_lines.h"
#include "cli/run_requests.h"

namespace lockstep::cli {
namespace {

using nlohmann::ordered_json;

struct Flags {
  EngineFlags engine;
  int64_t rows = 16;
  int64_t prompt_tokens = 3338;
  int64_t max_tokens = 128;
  std::string output = "text";
};

struct Report {
  int64_t unequal = 0;   ///< streams that differ from the run alone
  int64_t zeros = 0;     ///< streams of nothing but id 0
  int64_t distinct = 0;  ///< different streams
  int64_t tokens = 0;
  double seconds = 0;
  double steady_step_ms = 0;
};

request::Request make_request(const Flags& flags, int64_t vocab_size) {
  request::Request request;
  for (int64_t i = 0; i < flags.prompt_tokens; ++i) {
    const auto draw = philox4x32({static_cast<uint32_t>(i), 2, 0, 0}, {0, 0})[0];
    request.prompt_token_ids.push_back(static_cast<int32_t>(draw % static_cast<uint64_t>(vocab_size)));
  }
  request.sampling.max_tokens = flags.max_tokens;
  request.sampling.ignore_eos = true;
  request.sampling.logprobs = 0;
  return request;
}

double median_steady_ms(std::vector<engine::StepReport> steps, int64_t rows) {
  std::vector<double> times;
  for (const engine::StepReport& step : steps) {
    if (step.decode_rows == rows && step.tokens == rows) times.push_back(step.step_wall_s * 1e3);
  }
  if (times.empty()) return 0;
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

Report judge(const RequestResult& alone, const std::vector<RequestResult>& results) {
  Report report;
  std::vector<std::vector<int32_t>> streams;
  for (const RequestResult& result : results) {
    report.unequal += !result.error.ok() || !same_bits(alone, result);
    report.zeros += std::all_of(result.token_ids.begin(), result.token_ids.end(), [](int32_t id) { return id == 0; });
    report.tokens += static_cast<int64_t>(result.token_ids.size());
    streams.push_back(result.token_ids);
  }
  std::sort(streams.begin(), streams.end());
  report.distinct = std::unique(streams.begin(), streams.end()) - streams.begin();
  return report;
}

void print_report(const Flags& flags, const Report& r, bool passed) {
  const double rate = static_cast<double>(r.tokens) / r.seconds;
  if (flags.output == "json") {
    std::puts(dump({{"rows", flags.rows},
                    {"prompt_tokens", flags.prompt_tokens},
                    {"max_tokens", flags.max_tokens},
                    {"seconds", r.seconds},
                    {"tok_per_s", rate},
                    {"steady_step_ms", r.steady_step_ms},
                    {"streams", r.distinct},
                    {"unequal", r.unequal},
                    {"zeros", r.zeros},
                    {"passed", passed}})
                  .c_str());
    return;
  }
  fmt::print(
      "{} identical prompts of {} tokens, {} tokens each: {} distinct stream{}, {} unequal to the run alone, {} zero\n",
      flags.rows, flags.prompt_tokens, flags.max_tokens, r.distinct, r.distinct == 1 ? "" : "s", r.unequal, r.zeros);
  fmt::print("{:.2f} s, {:.1f} tok/s, steady step {:.2f} ms: {}\n", r.seconds, rate, r.steady_step_ms,
             passed ? "passed" : "FAILED");
}

Expected<bool> regress(Flags& flags) {
  LOCKSTEP_RETURN_IF_ERROR(make_local(flags.engine));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto checkpoint, open_checkpoint(flags.engine));
  EngineFlags engine_flags = flags.engine;
  StepRecorder recorder;
  engine_flags.engine.max_num_seqs = std::max(engine_flags.engine.max_num_seqs, flags.rows);
  engine_flags.engine.enable_prefix_caching = false;
  if (engine_flags.engine.max_model_len == 0)
    engine_flags.engine.max_model_len = std::min<int64_t>(4096, checkpoint->config().max_position);
  engine_flags.engine.on_step = recorder.observer();
  LOCKSTEP_ASSIGN_OR_RETURN(const auto engine, load_engine(engine_flags, checkpoint, {}));
  const request::Request request = make_request(flags, checkpoint->config().vocab_size);
  LOCKSTEP_ASSIGN_OR_RETURN(const auto alone, run_requests(*engine, {request}));
  LOCKSTEP_RETURN_IF_ERROR(alone[0].error);
  recorder.take();
  const auto begin = std::chrono::steady_clock::now();
  LOCKSTEP_ASSIGN_OR_RETURN(const auto results,
                            run_requests(*engine, std::vector(static_cast<size_t>(flags.rows), request)));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  Report report = judge(alone[0], results);
  report.seconds = seconds;
  report.steady_step_ms = median_steady_ms(recorder.take(), flags.rows);
  const bool passed = report.unequal == 0 && report.zeros == 0 && report.distinct == 1 &&
                      report.tokens == flags.rows * flags.max_tokens;
  print_report(flags, report, passed);
  return passed;
}

}  // namespace

void add_regress_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("regress", "identical long prompts in one batch must give identical streams");
  const auto flags = std::make_shared<Flags>();
  add_engine_flags(*command, flags->engine);
  command->add_option("--rows", flags->rows, "prompts")->check(CLI::Range(1, 4096))->capture_default_str();
  command->add_option("--prompt-tokens", flags->prompt_tokens, "tokens of the prompt")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--max-tokens", flags->max_tokens, "tokens of each answer")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--output", flags->output, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->callback([flags, &run] {
    run = [flags] {
      const auto passed = regress(*flags);
      if (!passed) return report_error(passed.error());
      return *passed ? 0 : 1;
    };
  });
}

}  // namespace lockstep::cli
