// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/local_model.h"
#include "server/server.h"
#include "text/text_model.h"

namespace lockstep::cli {
namespace {

struct Flags {
  EngineFlags engine;
  server::ServerOptions server;
  std::vector<std::string> api_keys;
  std::string api_key_file;
  bool parse_special_in_content = false;
};

/// Keys of --api-key, of the key file (a line each) and of LOCKSTEP_API_KEY.
Expected<std::vector<std::string>> collect_api_keys(const Flags& flags) {
  std::vector<std::string> keys = flags.api_keys;
  if (const char* key = std::getenv("LOCKSTEP_API_KEY"); key != nullptr && *key != '\0') keys.emplace_back(key);
  if (!flags.api_key_file.empty()) {
    std::ifstream file(flags.api_key_file);
    if (!file) return error(StatusCode::kNotFound, "--api-key-file {}: cannot be read", flags.api_key_file);
    const size_t before = keys.size();
    for (std::string line; std::getline(file, line);) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (!line.empty()) keys.push_back(line);
    }
    if (keys.size() == before) return invalid_argument("--api-key-file {}: holds no key", flags.api_key_file);
  }
  for (const std::string& key : keys) {
    if (key.empty()) return invalid_argument("--api-key: a key is empty");
  }
  return keys;
}

/// The file's or directory's name: "models/Qwen3-0.6B/" -> "Qwen3-0.6B", "SmolLM2.Q4_1.gguf" -> "SmolLM2.Q4_1".
std::string default_model_name(const std::string& path) {
  std::filesystem::path cleaned = std::filesystem::path(path).lexically_normal();
  if (cleaned.filename().empty()) cleaned = cleaned.parent_path();
  if (cleaned.extension() == ".gguf") cleaned.replace_extension();
  const std::string name = cleaned.filename().string();
  return name.empty() || name == "." || name == ".." ? "model" : name;
}

void print_ready(const std::string& url, const std::string& model) {
  fmt::print("ready: {} serves {}\n", url, model);
  fmt::print(
      "  curl {}/v1/chat/completions -H 'Content-Type: application/json' -d "
      "'{{\"messages\": [{{\"role\": \"user\", \"content\": \"What is the capital of Norway?\"}}], \"temperature\": "
      "0}}'\n",
      url);
  std::fflush(stdout);
}

Status serve(Flags& flags) {
  server::ServerOptions options = flags.server;
  LOCKSTEP_ASSIGN_OR_RETURN(options.api_keys, collect_api_keys(flags));
  if (options.served_model_names.empty()) {
    const std::string repository = hub_repository(flags.engine.model);
    options.served_model_names = {repository.empty() ? default_model_name(flags.engine.model) : repository};
  }
  options.model_root = flags.engine.model;
  // The port is taken first: a wrong one is known before the model is loaded, and /health answers meanwhile.
  LOCKSTEP_ASSIGN_OR_RETURN(auto server, server::Server::start(options));
  log_info("{} listens; loading the model", server->url());
  LOCKSTEP_RETURN_IF_ERROR(make_local(flags.engine));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto checkpoint, open_checkpoint(flags.engine));
  LOCKSTEP_ASSIGN_OR_RETURN(
      const auto text_model,
      text::TextModel::load(flags.engine.model, {.tokenizer = flags.engine.tokenizer,
                                                 .parse_special_in_content = flags.parse_special_in_content}));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto engine, load_engine(flags.engine, checkpoint, text_model->end_token_ids()));
  log_info("engine: {}", engine::to_string(engine->options()));
  log_info("server: {}", server::to_string(options));
  server->set_ready(*engine, text_model);
  print_ready(server->url(), options.served_model_names.front());
  server->wait();
  server.reset();  // before the engine that it uses
  log_info("stopped");
  return {};
}

void add_server_flags(CLI::App& command, Flags& flags) {
  server::ServerOptions& options = flags.server;
  command.add_option("--host", options.host, "address or name to listen on; 0.0.0.0 or :: for all")
      ->capture_default_str();
  command.add_option("--port", options.port, "port; 0 = any free one")->capture_default_str();
  command
      .add_option("--served-model-name", options.served_model_names,
                  "name in requests and answers, more are aliases (repeatable)")
      ->allow_extra_args(false);
  command.add_option("--api-key", flags.api_keys, "ask for this key (repeatable); also LOCKSTEP_API_KEY")
      ->allow_extra_args(false);
  command.add_option("--api-key-file", flags.api_key_file, "a file with a key on each line");
  command.add_option("--allowed-origin", options.allowed_origin, "CORS origin; empty = no CORS headers")
      ->capture_default_str();
  command.add_option("--max-body-bytes", options.max_body_bytes, "largest request body")->capture_default_str();
  command
      .add_option("--read-timeout", options.read_timeout_s, "seconds that a client has for sending a request; then 408")
      ->capture_default_str();
  command
      .add_option("--max-queued-requests", flags.engine.engine.max_queued_requests, "waiting requests; more get 429")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      .add_option("--max-queued-tokens", flags.engine.engine.max_queued_tokens,
                  "prompt tokens of waiting requests; more get 429; 0 = no limit")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->capture_default_str();
  command
      .add_option_function<std::string>(
          "--scheduling-policy",
          [&flags](const std::string& value) {
            flags.engine.engine.policy =
                value == "priority" ? engine::SchedulingPolicy::kPriority : engine::SchedulingPolicy::kFcfs;
          },
          "fcfs: in order of arrival; priority: by the request's priority, lower first (default: fcfs)")
      ->check(CLI::IsMember({"fcfs", "priority"}));
  command.add_flag("--adaptive-budget,!--no-adaptive-budget", flags.engine.engine.adaptive_budget,
                   "shrink the token budget while prefill would slow running requests down (default: on)");
  command.add_option("--grace-seconds", options.grace_seconds, "what running requests get after SIGTERM")
      ->capture_default_str();
  command.add_flag("--parse-special-in-content", flags.parse_special_in_content,
                   "control tokens typed in messages become control tokens, as Hugging Face does");
}

}  // namespace

void add_serve_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("serve", "the OpenAI-compatible HTTP server");
  const auto flags = std::make_shared<Flags>();
  flags->engine.engine.adaptive_budget = true;
  add_engine_flags(*command, flags->engine);
  command->add_option("--tokenizer", flags->engine.tokenizer, "directory or .gguf file with another tokenizer");
  add_server_flags(*command, *flags);
  command->callback([flags, &run] {
    run = [flags] {
      const Status status = serve(*flags);
      return status.ok() ? 0 : report_error(status);
    };
  });
}

}  // namespace lockstep::cli
