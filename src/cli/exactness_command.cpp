// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/exactness.h"
#include "cli/exit_code.h"
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

/// Runs the requests as the case says; results in the requests' order.
Expected<Results> run_case(const ExactnessCase& run, const std::shared_ptr<const files::Checkpoint>& checkpoint,
                           std::vector<request::Request> requests) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto backend, load_backend_quietly(run.flags, checkpoint, run.isa));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto engine, make_engine(run.flags, std::move(backend), {}));
  using Order = ExactnessCase::Order;
  if (run.order == Order::kOneByOne) return run_one_by_one(*engine, requests);
  if (run.order == Order::kTwice) {
    LOCKSTEP_ASSIGN_OR_RETURN([[maybe_unused]] const auto first, run_requests(*engine, requests));
  }
  if (run.order == Order::kReversed) std::reverse(requests.begin(), requests.end());
  auto results = run_requests(*engine, std::move(requests));
  if (results && run.order == Order::kReversed) std::reverse(results->begin(), results->end());
  return results;
}

ExactnessRow compare(const ExactnessCase& run, const Results& alone, const Results& results) {
  ExactnessRow row{run.axis, run.variant, static_cast<int64_t>(results.size()), 0, 0};
  for (size_t i = 0; i < results.size(); ++i) {
    row.tokens += static_cast<int64_t>(alone[i].token_ids.size());
    row.unequal += !results[i].error.ok() || !same_bits(alone[i], results[i]);
  }
  return row;
}

void print_table(const std::vector<ExactnessRow>& rows) {
  fmt::print("{:<16} {:<14} {:>8} {:>8}  {}\n", "axis", "variant", "requests", "tokens", "bits equal");
  for (const ExactnessRow& row : rows) {
    fmt::print("{:<16} {:<14} {:>8} {:>8}  {}\n", row.axis, row.variant, row.requests, row.tokens,
               row.unequal == 0 ? "yes" : fmt::format("NO: {} requests differ", row.unequal));
  }
}

void print_json(const std::vector<ExactnessRow>& rows) {
  ordered_json lines = ordered_json::array();
  for (const ExactnessRow& row : rows) {
    lines.push_back({{"axis", row.axis},
                     {"variant", row.variant},
                     {"requests", row.requests},
                     {"tokens", row.tokens},
                     {"unequal", row.unequal}});
  }
  std::puts(dump({{"rows", lines}}).c_str());
}

Expected<int64_t> exactness(const Flags& flags) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto checkpoint, open_checkpoint(flags.engine));
  EngineFlags base = flags.engine;
  const int64_t context = base.engine.max_model_len > 0 ? base.engine.max_model_len : checkpoint->config().max_position;
  base.engine.max_model_len = std::min<int64_t>(context, 1024);
  const auto requests = exactness_requests(checkpoint->config().vocab_size, base.engine.max_model_len, flags.quick);
  if (requests.empty()) {
    return invalid_argument("exactness: --max-model-len {} leaves no room for a prompt", base.engine.max_model_len);
  }
  const auto cases = exactness_cases(base, flags.quick);
  ProgressBar bar("running", 1, "variants");
  ExactnessCase alone;
  alone.flags = base;
  alone.flags.engine.enable_prefix_caching = false;
  alone.order = ExactnessCase::Order::kOneByOne;
  LOCKSTEP_ASSIGN_OR_RETURN(const Results expected, run_case(alone, checkpoint, requests));
  for (const RequestResult& result : expected) LOCKSTEP_RETURN_IF_ERROR(result.error);
  std::vector<ExactnessRow> rows;
  int64_t unequal = 0;
  for (const ExactnessCase& run : cases) {
    auto some = requests;
    if (run.max_requests > 0 && run.max_requests < static_cast<int64_t>(some.size()))
      some.resize(static_cast<size_t>(run.max_requests));
    auto results = run_case(run, checkpoint, std::move(some));
    if (!results) return unexpected(results.error().with_context(fmt::format("{} {}", run.axis, run.variant)));
    rows.push_back(compare(run, expected, *results));
    unequal += rows.back().unequal;
    bar.update(static_cast<int64_t>(rows.size()), static_cast<int64_t>(cases.size()));
  }
  bar.finish();
  flags.output == "json" ? print_json(rows) : print_table(rows);
  return unequal;
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
      const auto unequal = exactness(*flags);
      if (!unequal) return report_error(unequal.error());
      return *unequal == 0 ? 0 : 1;
    };
  });
}

}  // namespace lockstep::cli
