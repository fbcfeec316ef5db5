// SPDX-License-Identifier: Apache-2.0
// What a value of tokenizer.ggml.pre means: GGUF files name their pre-tokeniser instead of writing it down.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::tokenizer {

struct GgufPreType {
  std::span<const std::string_view> regexes;  ///< each cuts the pieces of the one before, matches isolated
  bool ignore_merges = false;
  bool add_bos = false;  ///< where the file has no tokenizer.ggml.add_bos_token
  bool nfc = false;
};

/// nullopt for names that Lockstep doesn't know.
std::optional<GgufPreType> gguf_pre_type(std::string_view name);

/// For error messages: "default, deepseek-llm, ...".
std::string known_gguf_pre_types();

}  // namespace lockstep::tokenizer
