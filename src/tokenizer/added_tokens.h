// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text as such, before anything else looks at it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/byte_trie.h"
#include "tokenizer/tokenizer.h"

namespace lockstep::tokenizer {

/// One entry of tokenizer.json's added_tokens, with its flags.
struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  ///< only where no word character is next to it
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< and after it
  bool normalized = false;   ///< is looked for in the normalised text
  bool special = false;
};

/// A part of a text: plain, or one added token.
struct Segment {
  ByteRange range;
  int32_t id = -1;  ///< -1: plain text
};

/// Finds added tokens, leftmost and longest first. Immutable after construction.
class AddedTokenMatcher final {
 public:
  AddedTokenMatcher() = default;
  /// `tokens[i].content` is what is looked for; empty ones are never found.
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  /// Appends the parts of `text`, in order and without gaps. A special token is passed over where it touches `literal`.
  void split(std::string_view text, std::span<const ByteRange> literal, std::vector<Segment>& out) const;

 private:
  size_t next_start(std::string_view text, size_t from) const;
  const AddedToken* longest_at(std::string_view text, size_t pos, std::span<const ByteRange> literal) const;

  std::vector<AddedToken> tokens_;
  ByteTrie trie_;  // of contents; values are indices into tokens_
  std::vector<unsigned char> first_bytes_;
  std::array<bool, 256> is_first_{};
};

}  // namespace lockstep::tokenizer
