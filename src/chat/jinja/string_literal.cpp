// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/string_literal.h"

#include <charconv>

#include "chat/jinja/unicode.h"
#include "fmt/format.h"

namespace lockstep::chat::jinja {

namespace {

/// Reads exactly `count` hexadecimal digits.
bool read_hex(std::string_view text, size_t at, size_t count, char32_t& value) {
  if (at + count > text.size()) return false;
  uint32_t read = 0;
  const char* begin = text.data() + at;
  const auto done = std::from_chars(begin, begin + count, read, 16);
  value = read;
  return done.ptr == begin + count;
}

size_t hex_digits(char letter) { return letter == 'x' ? 2 : letter == 'u' ? 4 : 8; }

/// One-letter escapes; '\0' when `letter` is none.
char simple_escape(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return letter;
    default:
      return '\0';
  }
}

size_t decode_octal(std::string_view text, size_t at, std::string& out) {
  char32_t value = 0;
  const size_t end = std::min(at + 3, text.size());
  for (; at < end && text[at] >= '0' && text[at] <= '7'; ++at)
    value = value * 8 + static_cast<char32_t>(text[at] - '0');
  append_utf8(out, value);
  return at;
}

/// `at` lies on the letter x, u or U. Two \u escapes that form a surrogate pair are one character.
bool decode_hex(std::string_view text, size_t& at, std::string& out) {
  const size_t count = hex_digits(text[at]);
  char32_t value = 0;
  if (!read_hex(text, at + 1, count, value) || value > 0x10ffff) return false;
  at += 1 + count;
  char32_t low = 0;
  if (value >= 0xd800 && value < 0xdc00 && text.substr(at, 2) == "\\u" && read_hex(text, at + 2, 4, low) &&
      low >= 0xdc00 && low < 0xe000) {
    value = 0x10000 + ((value - 0xd800) << 10) + (low - 0xdc00);
    at += 6;
  }
  append_utf8(out, value);
  return true;
}

}  // namespace

std::string normalise_newlines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else {
      out += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    }
  }
  return out;
}

std::string decode_string_literal(std::string_view text, std::string& out) {
  size_t at = 0;
  while (at < text.size()) {
    if (text[at] != '\\') {
      out += text[at++];
      continue;
    }
    if (++at == text.size()) return "\\ at end of string";
    const char letter = text[at];
    if (const char simple = simple_escape(letter); simple != '\0') {
      out += simple;
      ++at;
    } else if (letter == '\n') {
      ++at;
    } else if (letter >= '0' && letter <= '7') {
      at = decode_octal(text, at, out);
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      if (!decode_hex(text, at, out)) return fmt::format("truncated or illegal \\{} escape", letter);
    } else if (letter == 'N') {
      return "escapes by character name are not supported";
    } else {
      out += '\\';  // Python keeps the backslash of an escape that it doesn't know
    }
  }
  return "";
}

}  // namespace lockstep::chat::jinja
