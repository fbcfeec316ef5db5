// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/statistics.h"
#include "cli/bench_attention.h"
#include "cli/bench_limits.h"
#include "cli/bench_run.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/local_model.h"
#include "cli/json_lines.h"
#include "cli/progress_bar.h"

namespace lockstep::cli {
namespace {

using nlohmann::ordered_json;

struct Flags {
  EngineFlags engine;
  std::string tests = "prefill:512,decode:1@128,decode:16@128";
  int repeats = 0;  ///< 0: 3, of a comparison 20
  int64_t steps = 64;
  request::SamplingParams sampling;
  std::string attention = "paged";
  std::string output = "text";
};

struct Figures {
  double tok_per_s = 0, step_ms = 0, backend_ms = 0, host_ms = 0, gflops = 0, gbps = 0, share_of_limit = 0,
         t_limit_ms = 0, share_of_t_limit = 0;
};

Figures figures_of(const BenchTest& test, const BenchSamples& samples, const BenchSubject& subject,
                   const MachineLimits& machine) {
  Figures figures;
  figures.step_ms = median(samples.step_ms);
  figures.backend_ms = median(samples.backend_ms);
  figures.host_ms = median(samples.host_ms);
  const double seconds = figures.step_ms / 1e3;
  figures.tok_per_s = static_cast<double>(test.tokens) / seconds;
  if (test.prefill) {
    figures.gflops = prefill_flop(subject.config, test.tokens) / seconds / 1e9;
    figures.share_of_limit = figures.gflops / machine.fma_f32_gflops;
  } else {
    figures.gbps = decode_bytes(subject.config, subject.weights, subject.kv_dtype, test) / seconds / 1e9;
    figures.share_of_limit = figures.gbps / machine.read_gbps;
  }
  figures.t_limit_ms = limit_ms(machine, subject, test);
  figures.share_of_t_limit = figures.t_limit_ms / figures.step_ms;
  return figures;
}

std::string name_of(const BenchTest& test) {
  return test.prefill ? fmt::format("prefill:{}", test.tokens) : fmt::format("decode:{}@{}", test.rows, test.context);
}

void print_result(const BenchTest& test, const Figures& f) {
  const std::string rate = test.prefill ? fmt::format("{:8.1f} GFLOP/s, {:.2f} F", f.gflops, f.share_of_limit)
                                        : fmt::format("{:8.1f} GB/s, {:.2f} R", f.gbps, f.share_of_limit);
  fmt::print(
      "{:<18} {:9.1f} tok/s  step {:9.2f} ms  backend {:9.2f} ms  host {:6.3f} ms  {}, {:.2f} of T_limit {:.2f} ms\n",
      name_of(test), f.tok_per_s, f.step_ms, f.backend_ms, f.host_ms, rate, f.share_of_t_limit, f.t_limit_ms);
}

ordered_json result_json(const BenchTest& test, const Figures& f, const Flags& flags, int repeats) {
  return {{"test", test.prefill ? "prefill" : "decode"},
          {"rows", test.rows},
          {"tokens", test.tokens},
          {"context", test.context},
          {"weights", flags.engine.weights},
          {"quantization", flags.engine.quantization},
          {"kv", flags.engine.kv_cache_dtype},
          {"attention", flags.attention},
          {"tok_per_s", f.tok_per_s},
          {"step_ms", f.step_ms},
          {"backend_ms", f.backend_ms},
          {"host_ms", f.host_ms},
          {"repeats", repeats},
          {"gflops", test.prefill ? ordered_json(f.gflops) : ordered_json()},
          {"gbps", test.prefill ? ordered_json() : ordered_json(f.gbps)},
          {"share_of_limit", f.share_of_limit},
          {"t_limit_ms", f.t_limit_ms},
          {"share_of_t_limit", f.share_of_t_limit},
          {"temperature", test.sampling.temperature},
          {"top_p", test.sampling.top_p},
          {"min_p", test.sampling.min_p}};
}

void print_machine(const MachineLimits& machine) {
  std::string ceilings;
  for (const auto& [format, gflops] : machine.matmul) {
    ceilings += fmt::format(", {} matmul in cache {:.1f}", kernels::to_string(format), gflops);
  }
  fmt::print(
      "{}, {} threads, kernels {}: reads {:.1f} GB/s (R), {:.1f} GFLOP/s of f32 multiply-add (F), {:.1f} of int8{}\n",
      machine.cpu, machine.threads, machine.isa, machine.read_gbps, machine.fma_f32_gflops, machine.int8_gops,
      ceilings);
}

void print_json(const MachineLimits& machine, const ordered_json& results) {
  ordered_json ceilings = ordered_json::object();
  for (const auto& [format, gflops] : machine.matmul) ceilings[std::string(kernels::to_string(format))] = gflops;
  const ordered_json report{{"machine",
                             {{"cpu", machine.cpu},
                              {"isa", machine.isa},
                              {"threads", machine.threads},
                              {"read_gbps", machine.read_gbps},
                              {"fma_f32_gflops", machine.fma_f32_gflops},
                              {"int8_gops", machine.int8_gops},
                              {"matmul_ceiling_gflops", ceilings}}},
                            {"results", results}};
  std::puts(dump(report).c_str());
}

/// The engine is made for the tests: room for the most rows and the longest, blocks for the largest test (unless the
/// caller sizes the pool), no prefix hits.
EngineFlags bench_engine_flags(const Flags& flags, const std::vector<BenchTest>& tests) {
  EngineFlags made = flags.engine;
  made.engine.enable_prefix_caching = false;
  if (flags.attention != "paged") made.attention = backend::Attention::kContiguous;
  int64_t blocks = 0;
  int64_t longest = 0;
  for (const BenchTest& test : tests) {
    made.engine.max_num_seqs = std::max(made.engine.max_num_seqs, test.rows);
    made.engine.max_num_batched_tokens = std::max(made.engine.max_num_batched_tokens, test.rows);
    blocks = std::max(blocks, test.rows * (positions_of(test) / made.engine.block_size + 2) + 1);
    longest = std::max(longest, positions_of(test));
  }
  if (made.engine.max_model_len == 0) made.engine.max_model_len = longest;
  if (made.engine.num_kv_blocks == 0 && made.engine.kv_cache_memory == 0) made.engine.num_kv_blocks = blocks;
  return made;
}

/// What a run needs, whatever it measures.
struct Bench {
  const Flags& flags;
  std::vector<BenchTest> tests;
  engine::Engine& engine;
  backend::CpuBackend& backend;
  StepRecorder& recorder;
  const MachineLimits& machine;
  const BenchSubject& subject;
  int repeats;
};

Status measure(const Bench& bench) {
  std::vector<BenchSamples> samples(bench.tests.size());
  ProgressBar bar("measuring", 1, "runs");
  const auto total = static_cast<int64_t>(bench.tests.size()) * bench.repeats;
  for (int64_t run = 0; run < total; ++run) {  // tests in turn, so that a slow minute meets all of them
    const auto i = static_cast<size_t>(run) % bench.tests.size();
    LOCKSTEP_RETURN_IF_ERROR(
        run_bench_test(bench.engine, bench.recorder, bench.subject.config.vocab_size, bench.tests[i], samples[i]));
    bar.update(run + 1, total);
  }
  bar.finish();
  const bool text = bench.flags.output == "text";
  ordered_json results = ordered_json::array();
  if (text) print_machine(bench.machine);
  for (size_t i = 0; i < bench.tests.size(); ++i) {
    const Figures figures = figures_of(bench.tests[i], samples[i], bench.subject, bench.machine);
    if (text) print_result(bench.tests[i], figures);
    results.push_back(result_json(bench.tests[i], figures, bench.flags, bench.repeats));
  }
  if (!text) print_json(bench.machine, results);
  return {};
}

Status compare(const Bench& bench) {
  ProgressBar bar("measuring", 1, "runs");
  const auto total = static_cast<int64_t>(bench.tests.size()) * 2 * bench.repeats;
  int64_t done = 0;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto compared, compare_attention(bench.engine, bench.backend, bench.recorder,
                                                                   bench.subject.config.vocab_size, bench.tests,
                                                                   bench.repeats, [&] { bar.update(++done, total); }));
  bar.finish();
  const bool text = bench.flags.output == "text";
  ordered_json results = ordered_json::array();
  if (text) print_machine(bench.machine);
  for (size_t i = 0; i < bench.tests.size(); ++i) {
    const BenchTest& test = bench.tests[i];
    const AttentionComparison& one = compared[i];
    if (text) {
      fmt::print(
          "{:<18} {} steps  paged {:9.2f} ms  contiguous {:9.2f} ms  ratio {:.3f} [{:.3f}, {:.3f}] of {} pairs\n",
          name_of(test), test.prefill ? 1 : test.steps, one.paged_ms, one.contiguous_ms, one.ratio.median,
          one.ratio.low, one.ratio.high, bench.repeats);
    }
    results.push_back({{"test", test.prefill ? "prefill" : "decode"},
                       {"rows", test.rows},
                       {"tokens", test.tokens},
                       {"context", test.context},
                       {"weights", bench.flags.engine.weights},
                       {"quantization", bench.flags.engine.quantization},
                       {"kv", bench.flags.engine.kv_cache_dtype},
                       {"attention", "compare"},
                       {"steps", test.steps},
                       {"pairs", bench.repeats},
                       {"paged_ms", one.paged_ms},
                       {"contiguous_ms", one.contiguous_ms},
                       {"ratio", one.ratio.median},
                       {"ratio_low", one.ratio.low},
                       {"ratio_high", one.ratio.high}});
  }
  if (!text) print_json(bench.machine, results);
  return {};
}

Status bench(Flags& flags) {
  LOCKSTEP_RETURN_IF_ERROR(make_local(flags.engine));
  LOCKSTEP_ASSIGN_OR_RETURN(auto tests, parse_bench_tests(flags.tests));
  for (BenchTest& test : tests) {
    test.steps = flags.steps;
    test.sampling = flags.sampling;
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto checkpoint, open_checkpoint(flags.engine));
  EngineFlags engine_flags = bench_engine_flags(flags, tests);
  StepRecorder recorder;
  engine_flags.engine.on_step = recorder.observer();
  LOCKSTEP_ASSIGN_OR_RETURN(auto backend, load_backend(engine_flags, checkpoint));
  backend::CpuBackend& cpu_backend = *backend;  // lives in the engine from now on
  LOCKSTEP_ASSIGN_OR_RETURN(const MachineLimits machine, measure_limits(cpu_backend));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto engine, make_engine(engine_flags, std::move(backend), {}));
  LOCKSTEP_RETURN_IF_ERROR(cpu_backend.fill_kv());
  const engine::EngineOptions& options = engine->options();
  const BenchSubject subject{checkpoint->config(), cpu_backend.weights(), kv_dtype(flags.engine),
                             std::min(options.long_prefill_token_threshold, options.max_num_batched_tokens)};
  const bool comparison = flags.attention == "compare";
  const int repeats = flags.repeats > 0 ? flags.repeats : comparison ? 20 : 3;
  const Bench bench{flags, tests, *engine, cpu_backend, recorder, machine, subject, repeats};
  return comparison ? compare(bench) : measure(bench);
}

}  // namespace

void add_bench_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("bench", "speed beside what this machine can do, measured in the same run");
  const auto flags = std::make_shared<Flags>();
  add_engine_flags(*command, flags->engine);
  command->add_option("--tests", flags->tests, "prefill:TOKENS and decode:ROWS@CONTEXT, separated by commas")
      ->capture_default_str();
  command->add_option("--repeats", flags->repeats, "runs of each test, in turn; medians are reported (3; 20 pairs)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--steps", flags->steps, "timed steps of a decode run")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command->add_option("--temperature", flags->sampling.temperature, "of all rows; 0: greedy")->capture_default_str();
  command->add_option("--top-p", flags->sampling.top_p, "of all rows")->capture_default_str();
  command->add_option("--min-p", flags->sampling.min_p, "of all rows")->capture_default_str();
  command
      ->add_option("--attention", flags->attention,
                   "paged; contiguous: the baseline, over K/V that it stores a second time in one piece a sequence; "
                   "compare: both in interleaved pairs, with the interval of their ratio")
      ->check(CLI::IsMember({"paged", "contiguous", "compare"}))
      ->capture_default_str();
  command->add_option("--output", flags->output, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->callback([flags, &run] {
    run = [flags] {
      const Status status = bench(*flags);
      return status.ok() ? 0 : report_error(status);
    };
  });
}

}  // namespace lockstep::cli
