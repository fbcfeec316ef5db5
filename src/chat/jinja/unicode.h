// SPDX-License-Identifier: Apache-2.0
// Characters as Python's str sees them. Texts are UTF-8; a byte that is not part of a valid character counts as one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::chat::jinja {

/// The character at `pos` and the number of bytes it takes (at least 1). pos < text.size().
struct CodePoint {
  char32_t value = 0;
  size_t bytes = 1;
};
CodePoint decode_at(std::string_view text, size_t pos);
void append_utf8(std::string& out, char32_t value);
size_t count_characters(std::string_view text);
/// The byte where character number `index` begins; text.size() when there are fewer.
size_t byte_of_character(std::string_view text, size_t index);
/// The byte where the character that ends at `end` begins. end > 0.
size_t previous_character(std::string_view text, size_t end);

/// str.isspace() and str.strip()'s idea of white space.
bool is_space(char32_t c);
/// Where str.splitlines() breaks ("\r\n" is one break).
bool is_line_break(char32_t c);
bool is_alphabetic(char32_t c);
bool is_decimal(char32_t c);
bool is_digit(char32_t c);
bool is_numeric(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_title(char32_t c);
/// A character of a word in a regular expression (\w): letters, numbers, underscore.
bool is_word(char32_t c);
/// Part of a Python identifier.
bool is_identifier(char32_t c);
/// False for what repr() escapes.
bool is_printable(char32_t c);

enum class Case { kUpper, kLower, kTitle };
/// Appends the full mapping of one character (the sharp s becomes SS); the final sigma is the caller's.
void append_cased(std::string& out, char32_t c, Case target);

}  // namespace lockstep::chat::jinja
