// SPDX-License-Identifier: Apache-2.0
// The methods of str that change case, fill up and ask for kinds of characters.
#include <algorithm>
#include <array>

#include "chat/jinja/runtime.h"
#include "chat/jinja/string_method_tables.h"

namespace lockstep::chat::jinja {

namespace {

Value upper_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("upper", args, {});
  return Value(change_case(runtime.budget(), self, Case::kUpper));
}
Value lower_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("lower", args, {});
  return Value(change_case(runtime.budget(), self, Case::kLower));
}
Value capitalize_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("capitalize", args, {});
  return Value(capitalize(runtime.budget(), self));
}
/// Full case folding: the special characters fold to the small letters of their capitals.
Value casefold_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("casefold", args, {});
  TextBuilder builder(runtime.budget());
  for (size_t at = 0; at < self.bytes.size();) {
    const auto c = decode_at(self.bytes, at);
    std::string upper;
    append_cased(upper, c.value, Case::kUpper);
    std::string folded;
    for (size_t i = 0; i < upper.size();) {
      const auto part = decode_at(upper, i);
      append_cased(folded, part.value, Case::kLower);
      i += part.bytes;
    }
    builder.append(folded, self.is_literal_at(at));
    at += c.bytes;
  }
  return Value(builder.finish());
}

/// title() and swapcase(): each character's case depends on itself and the one before.
template <class Choose>
Value map_case(Runtime& runtime, const Text& self, Choose choose) {
  TextBuilder builder(runtime.budget());
  bool after_letter = false;
  for (size_t at = 0; at < self.bytes.size();) {
    const auto c = decode_at(self.bytes, at);
    std::string changed;
    append_cased(changed, c.value, choose(c.value, after_letter));
    builder.append(changed, self.is_literal_at(at));
    after_letter = is_upper(c.value) || is_lower(c.value) || is_title(c.value);
    at += c.bytes;
  }
  return Value(builder.finish());
}
Value title_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("title", args, {});
  return map_case(runtime, self,
                  [](char32_t, bool after_letter) { return after_letter ? Case::kLower : Case::kTitle; });
}
Value swapcase_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("swapcase", args, {});
  return map_case(runtime, self, [](char32_t c, bool) {
    return is_upper(c) ? Case::kLower : is_title(c) ? Case::kTitle : Case::kUpper;
  });
}

Value pad_method(Runtime& runtime, const Text& self, const Args& args, bool left, bool right) {
  const Arguments given("center", args, {"width", "fillchar"}, 1);
  Text blank;
  blank.bytes = " ";
  return Value(pad(runtime.budget(), self, given.integer(0, 0), given.given(1) ? given.text(1) : blank, left, right));
}
Value center_method(Runtime& runtime, const Text& self, const Args& args) {
  return pad_method(runtime, self, args, /*left=*/true, /*right=*/true);
}
Value ljust_method(Runtime& runtime, const Text& self, const Args& args) {
  return pad_method(runtime, self, args, /*left=*/false, /*right=*/true);
}
Value rjust_method(Runtime& runtime, const Text& self, const Args& args) {
  return pad_method(runtime, self, args, /*left=*/true, /*right=*/false);
}
Value zfill_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("zfill", args, {"width"}, 1);
  const bool sign = !self.bytes.empty() && (self.bytes[0] == '-' || self.bytes[0] == '+');
  Budget& budget = runtime.budget();
  Text zero;
  zero.bytes = "0";
  const Text digits = slice_bytes(budget, self, sign ? 1 : 0, self.bytes.size());
  TextBuilder builder(budget);
  builder.append(self, 0, sign ? 1 : 0);
  builder.append(pad(budget, digits, given.integer(0, 0) - (sign ? 1 : 0), zero, /*left=*/true, /*right=*/false));
  return Value(builder.finish());
}

Value expandtabs_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("expandtabs", args, {"tabsize"});
  const Int width = std::clamp(given.integer(0, 8), Int{0}, Int{1} << 20);
  TextBuilder builder(runtime.budget());
  Int column = 0;
  for (size_t at = 0; at < self.bytes.size();) {
    const auto c = decode_at(self.bytes, at);
    if (c.value == '\t') {
      const Int blanks = width == 0 ? 0 : width - column % width;
      builder.append_repeated(" ", static_cast<size_t>(blanks));
      column += blanks;
    } else {
      builder.append(self, at, at + c.bytes);
      column = c.value == '\n' || c.value == '\r' ? 0 : column + 1;
    }
    at += c.bytes;
  }
  return Value(builder.finish());
}

Value format_method(Runtime& runtime, const Text& self, const Args& args) {
  return Value(format_braces(runtime, self, args));
}

/// isalpha() and its kin: not empty, and every character passes.
template <bool (*kPasses)(char32_t)>
Value every_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("isalpha", args, {});
  runtime.budget().bytes(self.bytes.size());
  bool every = !self.bytes.empty();
  for (size_t at = 0; every && at < self.bytes.size();) {
    const auto c = decode_at(self.bytes, at);
    every = kPasses(c.value);
    at += c.bytes;
  }
  return Value(every);
}

bool is_alphanumeric(char32_t c) { return is_alphabetic(c) || is_numeric(c) || is_digit(c); }
bool is_ascii_character(char32_t c) { return c < 0x80; }
bool is_number_character(char32_t c) { return is_numeric(c) || is_digit(c); }

Value isascii_method(Runtime& runtime, const Text& self, const Args& args) {
  return self.bytes.empty() ? Value(true) : every_method<is_ascii_character>(runtime, self, args);
}
Value isprintable_method(Runtime& runtime, const Text& self, const Args& args) {
  return self.bytes.empty() ? Value(true) : every_method<is_printable>(runtime, self, args);
}
Value isidentifier_method(Runtime& runtime, const Text& self, const Args& args) {
  const bool starts_right = !self.bytes.empty() && !is_numeric(decode_at(self.bytes, 0).value);
  return starts_right ? every_method<is_identifier>(runtime, self, args) : Value(false);
}

/// islower() and isupper(): some letter of the wanted case, none of the other.
template <bool (*kWanted)(char32_t), bool (*kOther)(char32_t)>
Value case_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("islower", args, {});
  runtime.budget().bytes(self.bytes.size());
  bool some = false;
  for (size_t at = 0; at < self.bytes.size();) {
    const auto c = decode_at(self.bytes, at);
    if (kOther(c.value) || is_title(c.value)) return Value(false);
    some = some || kWanted(c.value);
    at += c.bytes;
  }
  return Value(some);
}

Value istitle_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("istitle", args, {});
  runtime.budget().bytes(self.bytes.size());
  bool some = false;
  bool after_letter = false;
  for (size_t at = 0; at < self.bytes.size();) {
    const auto c = decode_at(self.bytes, at);
    const bool capital = is_upper(c.value) || is_title(c.value);
    if ((capital && after_letter) || (is_lower(c.value) && !after_letter)) return Value(false);
    after_letter = capital || is_lower(c.value);
    some = some || after_letter;
    at += c.bytes;
  }
  return Value(some);
}

constexpr std::array kMethods = {
    StringMethodEntry{"capitalize", capitalize_method},
    StringMethodEntry{"casefold", casefold_method},
    StringMethodEntry{"center", center_method},
    StringMethodEntry{"expandtabs", expandtabs_method},
    StringMethodEntry{"format", format_method},
    StringMethodEntry{"isalnum", every_method<is_alphanumeric>},
    StringMethodEntry{"isalpha", every_method<is_alphabetic>},
    StringMethodEntry{"isascii", isascii_method},
    StringMethodEntry{"isdecimal", every_method<is_decimal>},
    StringMethodEntry{"isdigit", every_method<is_digit>},
    StringMethodEntry{"isidentifier", isidentifier_method},
    StringMethodEntry{"islower", case_method<is_lower, is_upper>},
    StringMethodEntry{"isnumeric", every_method<is_number_character>},
    StringMethodEntry{"isprintable", isprintable_method},
    StringMethodEntry{"isspace", every_method<is_space>},
    StringMethodEntry{"istitle", istitle_method},
    StringMethodEntry{"isupper", case_method<is_upper, is_lower>},
    StringMethodEntry{"ljust", ljust_method},
    StringMethodEntry{"lower", lower_method},
    StringMethodEntry{"rjust", rjust_method},
    StringMethodEntry{"swapcase", swapcase_method},
    StringMethodEntry{"title", title_method},
    StringMethodEntry{"upper", upper_method},
    StringMethodEntry{"zfill", zfill_method},
};

}  // namespace

std::span<const StringMethodEntry> style_methods() { return kMethods; }

}  // namespace lockstep::chat::jinja
