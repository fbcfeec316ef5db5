// SPDX-License-Identifier: Apache-2.0
// Helpers of this room's tests.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer::testing {

using nlohmann::json;
using Ids = std::vector<int32_t>;

inline std::shared_ptr<const Tokenizer> load_or_die(const std::string& path) {
  auto tokenizer = Tokenizer::load(path);
  if (!tokenizer) throw std::runtime_error(tokenizer.error().to_string());
  return *tokenizer;
}

/// Loaded once a test program.
inline std::shared_ptr<const Tokenizer> qwen3() {
  static const auto tokenizer = load_or_die(LOCKSTEP_TESTDATA_DIR "/qwen3-tokenizer");
  return tokenizer;
}
inline std::shared_ptr<const Tokenizer> smollm2() {
  static const auto tokenizer = load_or_die(LOCKSTEP_SMOLLM2_GGUF);
  return tokenizer;
}

/// The lines of a .jsonl file under tests/data.
inline std::vector<json> read_lines(const std::string& name) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/tests/data/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

/// Random text of snippets that splitting rules care about.
inline std::string random_text(std::mt19937& random, size_t snippets) {
  static constexpr std::string_view kSnippets[] = {
      "a",    "B",          "the",        "word",       "s",      "t",      "ll",     "re",     "VE",     "'",
      "'S",   "1",          "22",         "333",        "4444",   " ",      " ",      "  ",     "   ",    "\n",
      "\r\n", "\t",         "\v",         ".",          ",",      "!?",     "/",      "_",      "-",      "\"",
      "(",    "<|",         "é",          "ß",          "ſ",      "中",     "の",     "한",     "ñ",      "Ⅷ",
      "½",    "٣",          "\u0301",     "\u00a0",     "\u3000", "\u0085", "\u2028", "\u180e", "\u200b", "\u200d",
      "😀",   "\U00031350", "\U000105c0", "\U0001e4f0", "\u1c89", "\ufffd", "{}",     "\x7f"};
  std::string text;
  for (size_t i = 0; i < snippets; ++i) text += kSnippets[random() % std::size(kSnippets)];
  return text;
}

}  // namespace lockstep::tokenizer::testing
