// SPDX-License-Identifier: Apache-2.0
// Prompts given on the command line, in command-line order across the options that give them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

enum class PromptKind { kText, kFile, kIds, kChat };

struct Prompt {
  PromptKind kind = PromptKind::kText;
  std::string value;  ///< the text, the path, or "1,2,3"
};

/// Collects options as they are parsed. `kinds` says which of --prompt, --prompt-file, --prompt-ids, --chat exist.
void add_prompt_options(CLI::App& command, std::vector<Prompt>& prompts, std::initializer_list<PromptKind> kinds);

/// "1,2,3" -> ids; blanks around numbers are allowed. Errors name the place and the limit.
Expected<std::vector<int32_t>> parse_prompt_ids(std::string_view text);
/// The whole file. Errors name the path.
Expected<std::string> read_text_file(const std::string& path);

}  // namespace lockstep::cli
