// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "chat/jinja/special_casing.h"

namespace lockstep::chat::jinja {

namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

unsigned byte_at(std::string_view text, size_t pos) { return static_cast<unsigned char>(text[pos]); }

bool is_continuation(std::string_view text, size_t pos) {
  return pos < text.size() && (byte_at(text, pos) & 0xc0u) == 0x80u;
}

/// Superscripts and circled digits: str.isdigit() but not str.isdecimal().
bool is_other_digit(char32_t c) {
  return c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
         (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}

}  // namespace

CodePoint decode_at(std::string_view text, size_t pos) {
  const unsigned first = byte_at(text, pos);
  if (first < 0x80) return {first, 1};
  const CodePoint invalid{0xfffd, 1};
  size_t length = 0;
  char32_t value = 0;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
    value = first & 0x1fu;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    value = first & 0x0fu;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    value = first & 0x07u;
  } else {
    return invalid;
  }
  for (size_t i = 1; i < length; ++i) {
    if (!is_continuation(text, pos + i)) return invalid;
    value = (value << 6) | (byte_at(text, pos + i) & 0x3fu);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  if (overlong || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return invalid;
  return {value, length};
}

void append_utf8(std::string& out, char32_t value) {
  const auto put = [&out](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) value = 0xfffd;
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xc0u | (value >> 6));
    put(0x80u | (value & 0x3fu));
  } else if (value < 0x10000) {
    put(0xe0u | (value >> 12));
    put(0x80u | ((value >> 6) & 0x3fu));
    put(0x80u | (value & 0x3fu));
  } else {
    put(0xf0u | (value >> 18));
    put(0x80u | ((value >> 12) & 0x3fu));
    put(0x80u | ((value >> 6) & 0x3fu));
    put(0x80u | (value & 0x3fu));
  }
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (size_t pos = 0; pos < text.size(); ++count) pos += decode_at(text, pos).bytes;
  return count;
}

size_t byte_of_character(std::string_view text, size_t index) {
  size_t pos = 0;
  for (; index > 0 && pos < text.size(); --index) pos += decode_at(text, pos).bytes;
  return pos;
}

size_t previous_character(std::string_view text, size_t end) {
  for (size_t back = 1; back <= 4 && back <= end; ++back) {
    if (!is_continuation(text, end - back)) {
      return decode_at(text, end - back).bytes == back ? end - back : end - 1;
    }
  }
  return end - 1;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alphabetic(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) { return is_decimal(c) || is_other_digit(c); }
bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || c == 0xaa || c == 0xba; }
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_word(char32_t c) { return c == '_' || is_alphabetic(c) || is_numeric(c); }

bool is_identifier(char32_t c) {
  if (c < 0x80) return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  const auto kind = category(c);
  return is_word(c) || kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_PC;
}

bool is_printable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7f;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

void append_cased(std::string& out, char32_t c, Case target) {
  if (c < 0x80) {
    const bool lower = c >= 'a' && c <= 'z';
    const bool upper = c >= 'A' && c <= 'Z';
    if (target == Case::kLower && upper) c += 32;
    if (target != Case::kLower && lower) c -= 32;
    out.push_back(static_cast<char>(c));
    return;
  }
  if (target == Case::kLower) {
    if (c == 0x130) {  // capital I with dot: the one character whose lower case is two
      out += "i\u0307";
      return;
    }
    return append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
  const auto* found =
      std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases), c,
                       [](const SpecialCase& entry, char32_t wanted) { return entry.character < wanted; });
  if (found != std::end(kSpecialCases) && found->character == c) {
    out += target == Case::kUpper ? found->upper : found->title;
    return;
  }
  const auto code = static_cast<utf8proc_int32_t>(c);
  append_utf8(out, static_cast<char32_t>(target == Case::kUpper ? utf8proc_toupper(code) : utf8proc_totitle(code)));
}

}  // namespace lockstep::chat::jinja
