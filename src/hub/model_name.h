// SPDX-License-Identifier: Apache-2.0
// Names of models on the Hugging Face Hub, as people write them after --model.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep::hub {

/// "org/name", "org/name@revision", "org/name:FILE" or both, in this order. Checked by the rules of huggingface_hub
/// (validate_repo_id): each part 1 to 96 of letters, digits, '-', '_', '.'; no "--" or ".."; no '-' or '.' at an end;
/// not ending in ".git".
struct ModelName {
  std::string org, name;
  std::string revision = "main";  ///< a branch, tag, "refs/pr/N" or commit
  std::string file;  ///< a .gguf file of the repository or a part of one's name ("Q4_K_M"); "" = none named

  std::string repository() const { return org + "/" + name; }
};

/// kInvalidArgument names the part that is wrong.
Expected<ModelName> parse_model_name(std::string_view text);

/// Whether `text` is more likely meant as a Hub name than as a path that doesn't exist: one slash before any '@' or
/// ':', and neither "." nor "~" nor '/' at its start.
bool resembles_model_name(std::string_view text);

/// Whether a file's name in a repository may become a path below a folder: no "..", no empty part, nothing absolute, no
/// backslash or control character; at most 1024 bytes.
bool is_safe_file_name(std::string_view name);

}  // namespace lockstep::hub
