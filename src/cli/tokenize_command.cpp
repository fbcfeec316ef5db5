// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/json_lines.h"
#include "tokenizer/tokenizer.h"

namespace lockstep::cli {
namespace {

using nlohmann::ordered_json;

Expected<std::vector<int32_t>> parse_ids(const ordered_json& value) {
  if (!value.is_array()) return invalid_argument("ids is a {}, not an array", value.type_name());
  std::vector<int32_t> ids;
  for (const ordered_json& id : value) {
    if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<int32_t>::max()) {
      return invalid_argument("ids[{}] is {}, not an integer in 0..2147483647", ids.size(), dump(id));
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Expected<ordered_json> answer(const tokenizer::Tokenizer& tokenizer, const ordered_json& line) {
  if (line.contains("text")) {
    LOCKSTEP_RETURN_IF_ERROR(refuse_unknown_fields(line, {"text", "parse_special"}));
    if (!line["text"].is_string()) return invalid_argument("text is a {}, not a string", line["text"].type_name());
    LOCKSTEP_ASSIGN_OR_RETURN(const bool parse_special, bool_field(line, "parse_special", true));
    LOCKSTEP_ASSIGN_OR_RETURN(auto ids,
                              tokenizer.encode(line["text"].get<std::string>(),
                                               {.parse_special = parse_special, .add_special_tokens = false}));
    return ordered_json{{"ids", ids}};
  }
  if (!line.contains("ids")) return invalid_argument("neither text nor ids is given");
  LOCKSTEP_RETURN_IF_ERROR(refuse_unknown_fields(line, {"ids", "skip_special_tokens"}));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto ids, parse_ids(line["ids"]));
  LOCKSTEP_ASSIGN_OR_RETURN(const bool skip, bool_field(line, "skip_special_tokens", false));
  return ordered_json{{"text", tokenizer.decode(ids, skip)}};
}

int run_tokenize(const std::string& path) {
  const auto tokenizer = tokenizer::Tokenizer::load(path);
  if (!tokenizer) return report_error(tokenizer.error());
  answer_json_lines(std::cin, std::cout, [&](const ordered_json& line) { return answer(**tokenizer, line); });
  return 0;
}

}  // namespace

void add_tokenize_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("tokenize",
                                     "JSON lines on stdin: {\"text\", \"parse_special\"} -> {\"ids\"}, {\"ids\", "
                                     "\"skip_special_tokens\"} -> {\"text\"}");
  const auto path = std::make_shared<std::string>();
  command->add_option("--tokenizer", *path, "directory with tokenizer.json, or a .gguf file")->required();
  command->callback([path, &run] { run = [path] { return run_tokenize(*path); }; });
}

}  // namespace lockstep::cli
