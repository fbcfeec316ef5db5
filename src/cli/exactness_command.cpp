// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/exactness.h"
#include "cli/exit_code.h"
#include "cli/local_model.h"
#include "cli/json_lines.h"
#include "cli/progress_bar.h"

namespace lockstep::cli {
namespace {

using nlohmann::ordered_json;
using Results = std::vector<RequestResult>;

struct Flags {
  EngineFlags engine;
  bool quick = false;
  std::string output = "text";
};

Expected<Results> run_one_by_one(engine::Engine& engine, const std::vector<request::Request>& requests) {
  Results results;
  for (const request::Request& request : requests) {
    LOCKSTEP_ASSIGN_OR_RETURN(auto one, run_requests(engine, {request}));
    results.push_back(std::move(one[0]));
  }
  return results;
}

/// In a random order, with pauses; results in the requests' order. The same order each time; the pauses are as even as
/// the machine.
Expected<Results> run_at_random_times(engine::Engine& engine, const std::vector<request::Request>& requests) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(7);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<request::Request> shuffled;
  for (const size_t i : order) shuffled.push_back(requests[i]);
  std::uniform_int_distribution<int> pause_us(0, 3000);
  LOCKSTEP_ASSIGN_OR_RETURN(auto results, run_requests(engine, std::move(shuffled), [&](size_t) {
                              std::this_thread::sleep_for(std::chrono::microseconds(pause_us(random)));
                            }));
  Results out(results.size());
  for (size_t i = 0; i < order.size(); ++i) out[order[i]] = std::move(results[i]);
  return out;
}

/// Requests that leave the first two thirds of every prompt in the cache.
std::vector<request::Request> shortened(std::vector<request::Request> requests) {
  for (request::Request& request : requests) {
    request.prompt_token_ids.resize((2 * request.prompt_token_ids.size() + 2) / 3);
    request.sampling.max_tokens = 1;
  }
  return requests;
}

struct CaseRun {
  Results results;
  int64_t preemptions = 0;
};

Expected<Results> run_in_order(const ExactnessCase& run, engine::Engine& engine,
                               std::vector<request::Request> requests) {
  using Order = ExactnessCase::Order;
  switch (run.order) {
    case Order::kTogether:
      break;
    case Order::kOneByOne:
      return run_one_by_one(engine, requests);
    case Order::kAtRandomTimes:
      return run_at_random_times(engine, requests);
    case Order::kTwice: {
      LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const auto first, run_requests(engine, requests));
      break;
    }
    case Order::kPartlyWarm: {
      LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const auto first, run_requests(engine, shortened(requests)));
      break;
    }
    case Order::kReversed: {
      std::reverse(requests.begin(), requests.end());
      LOCKSTEP_ASSIGN_OR_RETURN(auto results, run_requests(engine, std::move(requests)));
      std::reverse(results.begin(), results.end());
      return results;
    }
  }
  return run_requests(engine, std::move(requests));
}

/// Runs the requests as the case says; results in the requests' order.
Expected<CaseRun> run_case(const ExactnessCase& run, const std::shared_ptr<const files::Checkpoint>& checkpoint,
                           std::vector<request::Request> requests) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto backend, load_backend_quietly(run.flags, checkpoint, run.isa));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto engine, make_engine(run.flags, std::move(backend), {}));
  CaseRun out;
  LOCKSTEP_ASSIGN_OR_RETURN(out.results, run_in_order(run, *engine, std::move(requests)));
  out.preemptions = engine->stats().num_preemptions;
  return out;
}

ExactnessRow compare(const ExactnessCase& run, const Results& alone, const CaseRun& ran) {
  ExactnessRow row{run.axis, run.variant, static_cast<int64_t>(ran.results.size()), 0, 0, ran.preemptions, false};
  for (size_t i = 0; i < ran.results.size(); ++i) {
    row.tokens += static_cast<int64_t>(alone[i].token_ids.size());
    row.unequal += !ran.results[i].error.ok() || !same_bits(alone[i], ran.results[i]);
  }
  row.failed = row.unequal > 0 || (run.must_preempt && row.preemptions == 0);
  return row;
}

std::string verdict(const ExactnessRow& row) {
  if (row.unequal > 0) return fmt::format("NO: {} requests differ", row.unequal);
  if (row.failed) return "NOT SHOWN: nothing was preempted";
  return row.preemptions > 0 ? fmt::format("yes, {} preemptions", row.preemptions) : "yes";
}

void print_table(const std::vector<ExactnessRow>& rows) {
  fmt::print("{:<16} {:<14} {:>8} {:>8}  {}\n", "axis", "variant", "requests", "tokens", "bits equal");
  for (const ExactnessRow& row : rows) {
    fmt::print("{:<16} {:<14} {:>8} {:>8}  {}\n", row.axis, row.variant, row.requests, row.tokens, verdict(row));
  }
}

void print_json(const std::vector<ExactnessRow>& rows) {
  ordered_json lines = ordered_json::array();
  for (const ExactnessRow& row : rows) {
    lines.push_back({{"axis", row.axis},
                     {"variant", row.variant},
                     {"requests", row.requests},
                     {"tokens", row.tokens},
                     {"unequal", row.unequal},
                     {"preemptions", row.preemptions},
                     {"failed", row.failed}});
  }
  std::puts(dump({{"rows", lines}}).c_str());
}

/// What each request gives alone, without a prefix cache.
Expected<Results> run_alone(const EngineFlags& base, const std::shared_ptr<const files::Checkpoint>& checkpoint,
                            const std::vector<request::Request>& requests) {
  ExactnessCase alone;
  alone.flags = base;
  alone.flags.engine.enable_prefix_caching = false;
  alone.order = ExactnessCase::Order::kOneByOne;
  LOCKSTEP_ASSIGN_OR_RETURN(CaseRun run, run_case(alone, checkpoint, requests));
  for (const RequestResult& result : run.results) LOCKSTEP_RETURN_IF_ERROR(result.error);
  return std::move(run.results);
}

/// The number of cases that failed.
Expected<int64_t> exactness(Flags& flags) {
  LOCKSTEP_RETURN_IF_ERROR(make_local(flags.engine));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto checkpoint, open_checkpoint(flags.engine));
  EngineFlags base = flags.engine;
  const int64_t context = base.engine.max_model_len > 0 ? base.engine.max_model_len : checkpoint->config().max_position;
  base.engine.max_model_len = std::min<int64_t>(context, 1024);
  const auto requests = exactness_requests(checkpoint->config().vocab_size, base.engine.max_model_len, flags.quick);
  if (requests.empty()) {
    return invalid_argument("exactness: --max-model-len {} leaves no room for a prompt", base.engine.max_model_len);
  }
  const auto shared = shared_prefix_requests(checkpoint->config().vocab_size, base.engine.max_model_len);
  auto cases = exactness_cases(base, flags.quick);
  if (shared.empty()) {
    log_warning("a context of {} tokens is too short for the requests with shared prefixes: their cases are left out",
                base.engine.max_model_len);
    std::erase_if(cases, [](const ExactnessCase& run) { return run.shared_prefixes; });
  }
  ProgressBar bar("running", 1, "variants");
  LOCKSTEP_ASSIGN_OR_RETURN(const Results expected, run_alone(base, checkpoint, requests));
  LOCKSTEP_ASSIGN_OR_RETURN(const Results expected_shared, run_alone(base, checkpoint, shared));
  std::vector<ExactnessRow> rows;
  int64_t failed = 0;
  for (const ExactnessCase& run : cases) {
    auto some = run.shared_prefixes ? shared : requests;
    if (run.max_requests > 0 && run.max_requests < static_cast<int64_t>(some.size()))
      some.resize(static_cast<size_t>(run.max_requests));
    auto ran = run_case(run, checkpoint, std::move(some));
    if (!ran) return unexpected(ran.error().with_context(fmt::format("{} {}", run.axis, run.variant)));
    rows.push_back(compare(run, run.shared_prefixes ? expected_shared : expected, *ran));
    failed += rows.back().failed ? 1 : 0;
    bar.update(static_cast<int64_t>(rows.size()), static_cast<int64_t>(cases.size()));
  }
  bar.finish();
  flags.output == "json" ? print_json(rows) : print_table(rows);
  return failed;
}

}  // namespace

void add_exactness_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand(
      "exactness",
      "proves on a model that batch, order, chunks, blocks, threads, caches and instruction set change no bit");
  const auto flags = std::make_shared<Flags>();
  add_engine_flags(*command, flags->engine);
  command->add_flag("--quick", flags->quick, "shorter prompts and outputs");
  command->add_option("--output", flags->output, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->callback([flags, &run] {
    run = [flags] {
      const auto failed = exactness(*flags);
      if (!failed) return report_error(failed.error());
      return *failed == 0 ? 0 : 1;
    };
  });
}

}  // namespace lockstep::cli
