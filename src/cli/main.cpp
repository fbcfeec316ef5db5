// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "base/log.h"
#include "cli/commands.h"

int main(int argc, char** argv) {
  using namespace lockstep;
  CLI::App app{"Lockstep serves Qwen3, Qwen2 and Llama models on CPUs: the same bits alone or in a batch."};
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "help of all commands");
  app.set_version_flag("--version", "lockstep 0.1.0");
  std::string log_level = "info";
  app.add_option("--log-level", log_level, "debug, info, warning, error or off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}));
  app.fallthrough();

  cli::Run run;
  cli::add_serve_command(app, run);
  cli::add_generate_command(app, run);
  cli::add_score_command(app, run);
  cli::add_bench_command(app, run);
  cli::add_exactness_command(app, run);
  cli::add_regress_command(app, run);
  cli::add_inspect_command(app, run);
  cli::add_tokenize_command(app, run);
  cli::add_render_command(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& parse_error) {
    const int status = app.exit(parse_error);
    return status == 0 ? 0 : 2;
  }
  const std::pair<std::string_view, LogLevel> levels[] = {{"debug", LogLevel::kDebug},
                                                          {"info", LogLevel::kInfo},
                                                          {"warning", LogLevel::kWarning},
                                                          {"error", LogLevel::kError},
                                                          {"off", LogLevel::kOff}};
  for (const auto& [name, level] : levels) {
    if (name == log_level) set_log_level(level);
  }
  return run();
}
