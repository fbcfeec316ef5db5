// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/format_spec.h"

#include <algorithm>
#include <cmath>

#include "chat/jinja/number.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/print.h"
#include "chat/jinja/unicode.h"

namespace lockstep::chat::jinja {

namespace {

constexpr Int kMaxWidth = 1 << 20;

bool is_align(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

std::optional<Int> take_number(std::string_view& rest) {
  Int value = 0;
  size_t count = 0;
  while (count < rest.size() && rest[count] >= '0' && rest[count] <= '9') {
    value = std::min(value * 10 + (rest[count] - '0'), kMaxWidth + 1);
    ++count;
  }
  rest.remove_prefix(count);
  return count == 0 ? std::nullopt : std::optional(value);
}

bool take_char(std::string_view& rest, char c) {
  if (rest.empty() || rest.front() != c) return false;
  rest.remove_prefix(1);
  return true;
}

std::string_view take_alignment(std::string_view rest, FormatSpec& spec) {
  if (rest.empty()) return rest;
  const size_t first = decode_at(rest, 0).bytes;
  if (rest.size() > first && is_align(rest[first])) {
    spec.fill = rest.substr(0, first);
    spec.align = rest[first];
    return rest.substr(first + 1);
  }
  if (!is_align(rest[0])) return rest;
  spec.align = rest[0];
  return rest.substr(1);
}

std::string group_digits(std::string digits, char separator, size_t size) {
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % size == 0) grouped += separator;
    grouped += digits[i];
  }
  return grouped;
}

std::string sign_of(bool negative, char style) {
  if (negative) return "-";
  return style == '+' || style == ' ' ? std::string(1, style) : "";
}

std::string upper_ascii(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return text;
}

/// format(x, "") and ".3" without a type: like g, but at least one digit behind the point.
std::string plain_float(double value, const FormatSpec& spec) {
  if (!spec.precision) return float_repr(value);
  std::string text = float_format(value, 'g', *spec.precision);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

Text own_text(Budget& budget, std::string_view bytes) {
  TextBuilder builder(budget);
  builder.append(bytes);
  return builder.finish();
}

Text format_string(Budget& budget, const Text& text, const FormatSpec& spec) {
  if ((spec.type != '\0' && spec.type != 's') || spec.align == '=') {
    fail("Unknown format code '{}' for object of type 'str'", spec.type == '\0' ? '=' : spec.type);
  }
  const Text& shown = text;
  if (!spec.precision) return fill_to_width(budget, shown, spec, '<');
  return fill_to_width(budget, truncate_characters(budget, shown, static_cast<size_t>(*spec.precision)), spec, '<');
}

}  // namespace

FormatSpec parse_format_spec(std::string_view text) {
  FormatSpec spec;
  std::string_view rest = take_alignment(text, spec);
  for (const char sign : {'+', '-', ' '}) {
    if (take_char(rest, sign)) {
      spec.sign = sign;
      break;
    }
  }
  spec.alternate = take_char(rest, '#');
  if (take_char(rest, '0') && spec.align == '\0') {
    spec.fill.assign(1, '0');
    spec.align = '=';
  }
  spec.width = take_number(rest).value_or(0);
  if (spec.width > kMaxWidth) fail_limit("a format's width is more than {}", int_to_string(kMaxWidth));
  for (const char grouping : {',', '_'}) {
    if (take_char(rest, grouping)) spec.grouping = grouping;
  }
  if (take_char(rest, '.')) {
    const auto precision = take_number(rest);
    if (!precision) fail("Format specifier missing precision");
    spec.precision = static_cast<int>(*precision);
  }
  if (rest.size() > 1) fail("Invalid format specifier '{}'", text);
  if (!rest.empty()) spec.type = rest.front();
  return spec;
}

Text truncate_characters(Budget& budget, const Text& text, size_t count) {
  TextBuilder builder(budget);
  builder.append(text, 0, byte_of_character(text.bytes, count));
  return builder.finish();
}

Text fill_to_width(Budget& budget, const Text& text, const FormatSpec& spec, char default_align) {
  const size_t have = count_characters(text.bytes);
  const size_t room = spec.width > static_cast<Int>(have) ? static_cast<size_t>(spec.width) - have : 0;
  if (room == 0) return text;
  const char align = spec.align == '\0' ? default_align : spec.align;
  size_t sign_end = 0;
  if (align == '=') {
    if (!text.bytes.empty() && (text.bytes[0] == '-' || text.bytes[0] == '+' || text.bytes[0] == ' ')) sign_end = 1;
    if (spec.alternate && text.bytes.size() > sign_end + 1 &&
        std::isalpha(static_cast<unsigned char>(text.bytes[sign_end + 1]))) {
      sign_end += 2;  // 0x and its kin
    }
  }
  const size_t before = align == '<' ? 0 : align == '^' ? room / 2 : room;
  TextBuilder builder(budget);
  builder.append(text, 0, sign_end);
  builder.append_repeated(spec.fill, before);
  builder.append(text, sign_end, text.bytes.size());
  builder.append_repeated(spec.fill, room - before);
  return builder.finish();
}

std::string format_integer(Int value, const FormatSpec& spec) {
  const char type = spec.type == '\0' || spec.type == 'n' ? 'd' : spec.type;
  const int base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'd' ? 10 : 16;
  std::string digits = int_to_base(value, base);
  const bool negative = digits[0] == '-';
  if (negative) digits.erase(0, 1);
  if (spec.grouping != '\0') digits = group_digits(digits, spec.grouping, base == 10 ? 3 : 4);
  std::string prefix = spec.alternate && base != 10 ? std::string("0") + type : "";
  if (type == 'X') digits = upper_ascii(digits);
  return sign_of(negative, spec.sign) + prefix + digits;
}

std::string format_float(double value, const FormatSpec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::fabs(value);
  std::string text;
  if (spec.type == '\0') {
    text = plain_float(magnitude, spec);
  } else if (spec.type == '%') {
    text = float_format(magnitude * 100.0, 'f', spec.precision.value_or(6)) + "%";
  } else {
    text = float_format(magnitude, spec.type == 'n' ? 'g' : spec.type, spec.precision.value_or(6));
  }
  if (spec.grouping != '\0' && std::isfinite(value)) {
    const size_t whole = std::min(text.find_first_not_of("0123456789"), text.size());
    text = group_digits(text.substr(0, whole), spec.grouping, 3) + text.substr(whole);
  }
  return sign_of(negative, spec.sign) + text;
}

Text format_value(Budget& budget, const Value& value, const FormatSpec& spec) {
  if (value.is_string()) return format_string(budget, value.text(), spec);
  const bool is_float_type = spec.type != '\0' && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  const bool is_int_type = spec.type != '\0' && std::string_view("bdoxXn").find(spec.type) != std::string_view::npos;
  const bool plain_bool = value.is_bool() && spec.type == '\0';
  if (value.is_integral() && !plain_bool && (is_int_type || spec.type == '\0')) {
    if (spec.precision) fail("Precision not allowed in integer format specifier");
    return fill_to_width(budget, own_text(budget, format_integer(value.as_int(), spec)), spec, '>');
  }
  if (value.is_number() &&
      (is_float_type || (value.kind() == Kind::kFloat && (spec.type == '\0' || spec.type == 'n')))) {
    return fill_to_width(budget, own_text(budget, format_float(value.to_double(), spec)), spec, '>');
  }
  if (spec.type == 'c' && value.is_integral()) {
    std::string character;
    append_utf8(character, static_cast<char32_t>(std::clamp(value.as_int(), Int{0}, Int{0x110000})));
    return fill_to_width(budget, own_text(budget, character), spec, '<');
  }
  const bool plain = spec.type == '\0' && spec.width == 0 && !spec.precision;
  if (value.is_number() && !plain_bool)
    fail("Unknown format code '{}' for object of type '{}'", spec.type, type_name(value));
  if (!plain && !plain_bool) fail("unsupported format string passed to {}.__format__", type_name(value));
  return fill_to_width(budget, to_text(budget, value), spec, '<');
}

}  // namespace lockstep::chat::jinja
