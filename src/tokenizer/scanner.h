// SPDX-License-Identifier: Apache-2.0
// The splitting patterns of the common models by hand: 5 to 10 times as fast as the regex, and tested to be equal to
// it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace lockstep::tokenizer {

/// The family  CONTRACTIONS | PREFIX \p{L}+ | DIGITS | ' '?[^\s\p{L}\p{N}]+ TAIL | [\s*[\r\n]+] | \s+(?!\S) | \s+
/// covers GPT-2, Llama 3, Qwen2 and their likes.
struct WordPattern {
  bool contractions_any_case = false;  ///< (?i:'s|'t|...), else 's|'t|... as written
  bool any_prefix = false;             ///< letters take [^\r\n\p{L}\p{N}]? in front, else ' '?
  int max_digits = 0;                  ///< \p{N}{1,n}; 0: ' '?\p{N}+
  bool newline_tail = false;           ///< punctuation takes [\r\n]* along
  bool newlines = false;               ///< \s*[\r\n]+ is a piece
};

/// The member of the family that this regex is, if any; compared as text.
std::optional<WordPattern> known_word_pattern(std::string_view regex);

/// Appends the matches within text[range]; every one of these patterns covers the text without gaps.
void scan_words(const WordPattern& pattern, std::string_view text, ByteRange range, std::vector<ByteRange>& out);

}  // namespace lockstep::tokenizer
