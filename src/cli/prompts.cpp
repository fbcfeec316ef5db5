// SPDX-License-Identifier: Apache-2.0
#include "cli/prompts.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

namespace lockstep::cli {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::pair<const char*, const char*> describe(PromptKind kind) {
  switch (kind) {
    case PromptKind::kText:
      return {"--prompt", "a prompt as text; control tokens in it are parsed (repeatable)"};
    case PromptKind::kFile:
      return {"--prompt-file", "a file whose whole text is a prompt (repeatable)"};
    case PromptKind::kIds:
      return {"--prompt-ids", "a prompt as token ids, e.g. 1,2,3 (repeatable)"};
    case PromptKind::kChat:
      return {"--chat", "a user message, put into the model's chat template (repeatable)"};
  }
  return {"", ""};
}

}  // namespace

void add_prompt_options(CLI::App& command, std::vector<Prompt>& prompts, std::initializer_list<PromptKind> kinds) {
  for (const PromptKind kind : kinds) {
    const auto [name, help] = describe(kind);
    // trigger_on_parse runs the function for each occurrence as it is parsed: that keeps the order across options.
    command
        .add_option_function<std::string>(
            name, [&prompts, kind](const std::string& value) { prompts.push_back({kind, value}); }, help)
        ->trigger_on_parse()
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

Expected<std::vector<int32_t>> parse_prompt_ids(std::string_view text) {
  std::vector<int32_t> ids;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view item = trim(text.substr(0, comma));
    int32_t id = 0;
    const auto [end, code] = std::from_chars(item.data(), item.data() + item.size(), id);
    if (code != std::errc() || end != item.data() + item.size() || id < 0) {
      return invalid_argument("--prompt-ids: item {} is '{}', not a token id in 0..2147483647", ids.size() + 1, item);
    }
    ids.push_back(id);
    if (comma == std::string_view::npos) return ids;
    text.remove_prefix(comma + 1);
  }
}

Expected<std::string> read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return error(StatusCode::kNotFound, "{}: {}", path, std::strerror(errno));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return error(StatusCode::kDataLoss, "{}: could not be read", path);
  return text;
}

}  // namespace lockstep::cli
