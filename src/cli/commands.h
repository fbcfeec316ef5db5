// SPDX-License-Identifier: Apache-2.0
// The subcommands of the program. Each add_* function defines a subcommand's flags and puts what it does into `run`,
// which main() calls after parsing. Exit status: 0 done, 1 an error (printed to stderr), 2 bad usage.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace lockstep::cli {

using Run = std::function<int()>;

void add_generate_command(CLI::App& app, Run& run);
void add_score_command(CLI::App& app, Run& run);
void add_tokenize_command(CLI::App& app, Run& run);
void add_render_command(CLI::App& app, Run& run);
void add_inspect_command(CLI::App& app, Run& run);
void add_bench_command(CLI::App& app, Run& run);
void add_exactness_command(CLI::App& app, Run& run);
void add_regress_command(CLI::App& app, Run& run);
void add_serve_command(CLI::App& app, Run& run);

}  // namespace lockstep::cli
