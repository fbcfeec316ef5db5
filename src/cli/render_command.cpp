// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "chat/chat_template.h"
#include "chat/jinja/template.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/json_lines.h"
#include "tokenizer/tokenizer.h"

namespace lockstep::cli {
namespace {

using nlohmann::ordered_json;

/// transformers' apply_chat_template(tokenize=False), exactly: the messages are not normalised first.
Expected<ordered_json> render_chat(const chat::ChatTemplate& chat_template, const ordered_json& line) {
  LOCKSTEP_RETURN_IF_ERROR(refuse_unknown_fields(
      line, {"messages", "tools", "add_generation_prompt", "continue_final_message", "chat_template_kwargs"}));
  chat::RenderRequest request;
  if (!line.contains("messages")) return invalid_argument("messages is missing");
  request.messages = line["messages"];
  if (line.contains("tools")) request.tools = line["tools"];
  if (line.contains("chat_template_kwargs")) request.chat_template_kwargs = line["chat_template_kwargs"];
  LOCKSTEP_ASSIGN_OR_RETURN(request.add_generation_prompt, bool_field(line, "add_generation_prompt", false));
  LOCKSTEP_ASSIGN_OR_RETURN(request.continue_final_message, bool_field(line, "continue_final_message", false));
  LOCKSTEP_ASSIGN_OR_RETURN(const chat::Rendered rendered, chat_template.render(request));
  return ordered_json{{"text", rendered.text}};
}

Expected<ordered_json> render_raw(const ordered_json& line) {
  LOCKSTEP_RETURN_IF_ERROR(refuse_unknown_fields(line, {"template", "context", "now"}));
  if (!line.contains("template") || !line["template"].is_string()) return invalid_argument("template must be a string");
  std::vector<chat::jinja::Variable> variables;
  if (line.contains("context")) {
    if (!line["context"].is_object()) return invalid_argument("context must be an object");
    for (const auto& [name, value] : line["context"].items())
      variables.push_back({name, value, /*request_born=*/false});
  }
  std::optional<chat::jinja::ClockTime> now;
  if (line.contains("now") && !line["now"].is_null()) {
    if (!line["now"].is_string()) return invalid_argument("now must be a string such as 2025-07-26T14:05:09");
    LOCKSTEP_ASSIGN_OR_RETURN(now, chat::jinja::parse_clock_time(line["now"].get<std::string>()));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto parsed, chat::jinja::Template::parse(line["template"].get<std::string>()));
  LOCKSTEP_ASSIGN_OR_RETURN(const chat::Rendered rendered, parsed.render(variables, now));
  return ordered_json{{"output", rendered.text}};
}

int run_render(const std::string& path, bool raw) {
  if (raw) {
    answer_json_lines(std::cin, std::cout, render_raw);
    return 0;
  }
  if (path.empty()) return report_error(invalid_argument("render needs --tokenizer DIR_OR_GGUF, or --raw"));
  const auto tokenizer = tokenizer::Tokenizer::load(path);
  if (!tokenizer) return report_error(tokenizer.error());
  const auto source = (*tokenizer)->chat_template();
  if (!source) return report_error(error(StatusCode::kNotFound, "{} has no chat template", path));
  const auto parsed = chat::ChatTemplate::parse(*source, (*tokenizer)->special_tokens());
  if (!parsed) return report_error(parsed.error().with_context(path));
  answer_json_lines(std::cin, std::cout, [&](const ordered_json& line) { return render_chat(**parsed, line); });
  return 0;
}

}  // namespace

void add_render_command(CLI::App& app, Run& run) {
  struct Flags {
    std::string tokenizer;
    bool raw = false;
  };
  auto* command = app.add_subcommand(
      "render",
      "JSON lines on stdin: {\"messages\", \"tools\"?, \"add_generation_prompt\"?, \"continue_final_message\"?, "
      "\"chat_template_kwargs\"?} -> {\"text\"} or {\"error\"}");
  const auto flags = std::make_shared<Flags>();
  command->add_option("--tokenizer", flags->tokenizer, "directory with tokenizer files, or a .gguf file");
  command->add_flag("--raw", flags->raw,
                    "lines are {\"template\", \"context\", \"now\"?} -> {\"output\"} or {\"error\"}");
  command->callback([flags, &run] { run = [flags] { return run_render(flags->tokenizer, flags->raw); }; });
}

}  // namespace lockstep::cli
