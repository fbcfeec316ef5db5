// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/bench_run.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/json_lines.h"
#include "cli/progress_bar.h"
#include "cpu/features.h"
#include "cpu/measure.h"
#include "cpu/thread_pool.h"

namespace lockstep::cli {
namespace {

using nlohmann::ordered_json;

struct Flags {
  EngineFlags engine;
  std::string tests = "prefill:512,decode:1@128,decode:16@128";
  int repeats = 3;
  std::string attention = "paged";
  std::string output = "text";
};

struct Machine {
  std::string cpu;
  std::string isa;
  int threads = 0;
  double read_gbps = 0;
  double fma_f32_gflops = 0;
};

struct Figures {
  double tok_per_s = 0, step_ms = 0, backend_ms = 0, host_ms = 0, gflops = 0, gbps = 0, share_of_limit = 0;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Expected<Machine> measure_machine(const backend::CpuBackend& backend) {
  Machine machine;
  machine.cpu = cpu::cpu_name();
  machine.isa = backend.kernels().isa;
  machine.threads = backend.threads();
  cpu::ThreadPool pool(machine.threads, /*pin=*/true);
  LOCKSTEP_ASSIGN_OR_RETURN(machine.read_gbps, cpu::measure_read_gbps(pool));
  machine.fma_f32_gflops = cpu::measure_fma_gflops(pool);
  return machine;
}

/// What the model is, apart from how long things take.
struct Subject {
  const files::ModelConfig& config;
  const loader::DecoderWeights& weights;
  DType kv_dtype;
};

Figures figures_of(const BenchTest& test, const BenchSamples& samples, const Subject& subject, const Machine& machine) {
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
  return figures;
}

void print_result(const BenchTest& test, const Figures& f) {
  const std::string name =
      test.prefill ? fmt::format("prefill:{}", test.tokens) : fmt::format("decode:{}@{}", test.rows, test.context);
  const std::string rate = test.prefill ? fmt::format("{:8.1f} GFLOP/s, {:.2f} F", f.gflops, f.share_of_limit)
                                        : fmt::format("{:8.1f} GB/s, {:.2f} R", f.gbps, f.share_of_limit);
  fmt::print("{:<18} {:9.1f} tok/s  step {:9.2f} ms  backend {:9.2f} ms  host {:6.3f} ms  {}\n", name, f.tok_per_s,
             f.step_ms, f.backend_ms, f.host_ms, rate);
}

ordered_json result_json(const BenchTest& test, const Figures& f, const Flags& flags) {
  return {{"test", test.prefill ? "prefill" : "decode"},
          {"rows", test.rows},
          {"tokens", test.tokens},
          {"context", test.context},
          {"weights", flags.engine.weights},
          {"kv", flags.engine.kv_cache_dtype},
          {"attention", flags.attention},
          {"tok_per_s", f.tok_per_s},
          {"step_ms", f.step_ms},
          {"backend_ms", f.backend_ms},
          {"host_ms", f.host_ms},
          {"repeats", flags.repeats},
          {"gflops", test.prefill ? ordered_json(f.gflops) : ordered_json()},
          {"gbps", test.prefill ? ordered_json() : ordered_json(f.gbps)},
          {"share_of_limit", f.share_of_limit}};
}

/// The engine is made for the tests: room for the most rows and the longest context, no prefix hits.
EngineFlags bench_engine_flags(const Flags& flags, const std::vector<BenchTest>& tests) {
  EngineFlags made = flags.engine;
  made.engine.enable_prefix_caching = false;
  if (flags.attention == "contiguous") made.attention = backend::Attention::kContiguous;
  for (const BenchTest& test : tests) {
    made.engine.max_num_seqs = std::max(made.engine.max_num_seqs, test.rows);
    made.engine.max_num_batched_tokens = std::max(made.engine.max_num_batched_tokens, test.rows);
  }
  return made;
}

Status bench(const Flags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto tests, parse_bench_tests(flags.tests));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto checkpoint, open_checkpoint(flags.engine));
  EngineFlags engine_flags = bench_engine_flags(flags, tests);
  StepRecorder recorder;
  engine_flags.engine.on_step = recorder.observer();
  LOCKSTEP_ASSIGN_OR_RETURN(auto backend, load_backend(engine_flags, checkpoint));
  const backend::CpuBackend& cpu_backend = *backend;  // lives in the engine from now on
  LOCKSTEP_ASSIGN_OR_RETURN(const Machine machine, measure_machine(cpu_backend));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto engine, make_engine(engine_flags, std::move(backend), {}));
  std::vector<BenchSamples> samples(tests.size());
  ProgressBar bar("measuring", 1, "runs");
  const auto total = static_cast<int64_t>(tests.size()) * flags.repeats;
  for (int64_t run = 0; run < total; ++run) {  // tests in turn, so that a slow minute meets all of them
    const auto i = static_cast<size_t>(run) % tests.size();
    LOCKSTEP_RETURN_IF_ERROR(run_bench_test(*engine, recorder, checkpoint->config().vocab_size, tests[i], samples[i]));
    bar.update(run + 1, total);
  }
  bar.finish();
  const Subject subject{checkpoint->config(), cpu_backend.weights(), kv_dtype(flags.engine)};
  ordered_json results = ordered_json::array();
  if (flags.output == "text") {
    fmt::print("{}, {} threads, kernels {}: reads {:.1f} GB/s (R), {:.1f} GFLOP/s of f32 multiply-add (F)\n",
               machine.cpu, machine.threads, machine.isa, machine.read_gbps, machine.fma_f32_gflops);
  }
  for (size_t i = 0; i < tests.size(); ++i) {
    const Figures figures = figures_of(tests[i], samples[i], subject, machine);
    if (flags.output == "text") print_result(tests[i], figures);
    results.push_back(result_json(tests[i], figures, flags));
  }
  if (flags.output == "json") {
    const ordered_json report{{"machine",
                               {{"cpu", machine.cpu},
                                {"isa", machine.isa},
                                {"threads", machine.threads},
                                {"read_gbps", machine.read_gbps},
                                {"fma_f32_gflops", machine.fma_f32_gflops}}},
                              {"results", results}};
    std::puts(dump(report).c_str());
  }
  return {};
}

}  // namespace

void add_bench_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("bench", "speed beside what this machine can do, measured in the same run");
  const auto flags = std::make_shared<Flags>();
  add_engine_flags(*command, flags->engine);
  command->add_option("--tests", flags->tests, "prefill:TOKENS and decode:ROWS@CONTEXT, separated by commas")
      ->capture_default_str();
  command->add_option("--repeats", flags->repeats, "runs of each test, in turn; medians are reported")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--attention", flags->attention,
                   "paged, or contiguous: the baseline, over K/V that it stores a second time in one piece a sequence")
      ->check(CLI::IsMember({"paged", "contiguous"}))
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
