// SPDX-License-Identifier: Apache-2.0
// UTF-8 by hand: decoding one character, finding faults, replacing them as Python's decode("utf-8", "replace") does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::tokenizer {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

struct Utf8Char {
  char32_t code_point = 0;
  uint32_t size = 0;  ///< bytes
};

/// The character that starts at `pos`. The text must be valid UTF-8 and pos a character's start within it.
inline Utf8Char utf8_at(std::string_view text, size_t pos) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[pos + i])); };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {((first & 0x1F) << 6) | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {((first & 0x0F) << 12) | ((byte(1) & 0x3F) << 6) | (byte(2) & 0x3F), 3};
  return {((first & 0x07) << 18) | ((byte(1) & 0x3F) << 12) | ((byte(2) & 0x3F) << 6) | (byte(3) & 0x3F), 4};
}

/// The start of the character that ends at `pos` > 0 in valid UTF-8.
inline size_t utf8_previous(std::string_view text, size_t pos) {
  do --pos;
  while (pos > 0 && (static_cast<unsigned char>(text[pos]) & 0xC0) == 0x80);
  return pos;
}

void append_utf8(std::string& out, char32_t code_point);

/// Bytes of the valid text at the start.
size_t valid_utf8_prefix(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

/// How many bytes at the start of `text` one U+FFFD stands for: the longest prefix of a character ("maximal subpart"),
/// at least 1. `truncated` is set where the text ends inside what could still become a character.
/// The text must not be empty nor begin with a whole character.
size_t invalid_utf8_size(std::string_view text, bool& truncated);

/// Appends `bytes` to `out`, each fault as U+FFFD. With `keep_truncated`, bytes of an unfinished character at the end
/// are not appended but counted in the result.
size_t append_replacing_invalid(std::string& out, std::string_view bytes, bool keep_truncated);

}  // namespace lockstep::tokenizer
