// SPDX-License-Identifier: Apache-2.0
// Filters on text.
#include <algorithm>
#include <array>

#include "chat/jinja/arguments.h"
#include "chat/jinja/filter_tables.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/string_methods.h"

namespace lockstep::chat::jinja {

namespace {

Value upper_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("upper", args, {});
  return Value(change_case(runtime.budget(), to_text(runtime.budget(), target), Case::kUpper));
}
Value lower_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("lower", args, {});
  return Value(change_case(runtime.budget(), to_text(runtime.budget(), target), Case::kLower));
}
Value capitalize_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("capitalize", args, {});
  return Value(capitalize(runtime.budget(), to_text(runtime.budget(), target)));
}

/// Words begin behind - white space ( { [ <.
Value title_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("title", args, {});
  const Text text = to_text(runtime.budget(), target);
  TextBuilder builder(runtime.budget());
  bool word_start = true;
  for (size_t at = 0; at < text.bytes.size();) {
    const auto c = decode_at(text.bytes, at);
    std::string changed;
    append_cased(changed, c.value, word_start ? Case::kUpper : Case::kLower);
    builder.append(changed, text.is_literal_at(at));
    word_start =
        c.value == '-' || c.value == '(' || c.value == '{' || c.value == '[' || c.value == '<' || is_space(c.value);
    at += c.bytes;
  }
  return Value(builder.finish());
}

Value trim_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("trim", args, {"chars"});
  const Text* set = given.set(0) ? &given.text(0) : nullptr;
  return Value(strip(runtime.budget(), to_text(runtime.budget(), target), set, /*left=*/true, /*right=*/true));
}

Value replace_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("replace", args, {"old", "new", "count"}, 2);
  Budget& budget = runtime.budget();
  const Int count = given.set(2) ? given.integer(2, -1) : Int{-1};
  return Value(replace(budget, to_text(budget, target), to_text(budget, *given[0]), to_text(budget, *given[1]), count));
}

Value join_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("join", args, {"d", "attribute"});
  Budget& budget = runtime.budget();
  Values items = iterate(budget, target);
  if (given.set(1)) {
    for (auto& item : items) item = attribute_path(runtime, item, *given[1]);
  }
  return Value(join(budget, given.given(0) ? to_text(budget, *given[0]) : Text(), items, /*convert=*/true));
}

Value indent_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("indent", args, {"width", "first", "blank"});
  Budget& budget = runtime.budget();
  require_defined(target);
  if (!target.is_string()) fail("indent needs a string, not {}", type_name(target));
  Text indent;
  if (given.given(0) && given[0]->is_string()) {
    indent = given.text(0);
  } else {
    const Int width = std::max(Int{0}, given.integer(0, 4));
    if (width > (1 << 20)) fail_limit("indent's width is too great");
    indent.bytes.assign(static_cast<size_t>(width), ' ');
  }
  const bool blank = given.truth(2, false);
  TextBuilder with_newline(budget);
  with_newline.append(target.text());
  with_newline.append("\n");
  const Values lines = split_lines(budget, with_newline.finish(), /*keep_ends=*/false);
  TextBuilder builder(budget);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i != 0) builder.append("\n");
    const bool indented = i == 0 ? given.truth(1, false) : blank || !lines[i].bytes().empty();
    if (indented) builder.append(indent);
    builder.append(lines[i].text());
  }
  return Value(builder.finish());
}

Value truncate_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("truncate", args, {"length", "killwords", "end", "leeway"});
  Budget& budget = runtime.budget();
  Text end;
  end.bytes = "...";
  if (given.given(2)) end = given.text(2);
  const Int limit = given.integer(0, 255);
  const Int leeway = given.set(3) ? given.integer(3, 5) : Int{5};
  const auto end_size = static_cast<Int>(count_characters(end.bytes));
  if (limit < end_size) fail("truncate: the length must be at least that of the end");
  if (leeway < 0) fail("truncate: leeway must not be negative");
  const auto size = length(budget, target);
  if (size && (static_cast<Int>(*size) <= limit || static_cast<Int>(*size) - limit <= leeway)) return target;
  if (!target.is_string()) fail("truncate needs a string, not {}", type_name(target));
  const Text& text = target.text();
  const size_t cut = byte_of_character(text.bytes, static_cast<size_t>(limit - end_size));
  size_t kept = cut;
  if (!given.truth(1, false) && cut > 0) {
    const size_t blank = text.bytes.rfind(' ', cut - 1);
    if (blank != std::string::npos) kept = blank;
  }
  TextBuilder builder(budget);
  builder.append(text, 0, kept);
  builder.append(end);
  return Value(builder.finish());
}

Value center_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("center", args, {"width"});
  Text blank;
  blank.bytes = " ";
  Budget& budget = runtime.budget();
  return Value(pad(budget, to_text(budget, target), given.integer(0, 80), blank, /*left=*/true, /*right=*/true));
}

Value wordcount_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("wordcount", args, {});
  const Text text = to_text(runtime.budget(), target);
  Int count = 0;
  bool inside = false;
  for (size_t at = 0; at < text.bytes.size();) {
    const auto c = decode_at(text.bytes, at);
    const bool word = is_word(c.value);
    count += word && !inside ? 1 : 0;
    inside = word;
    at += c.bytes;
  }
  return Value(count);
}

Value escape_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("escape", args, {});
  return Value(escape_markup(runtime.budget(), to_text(runtime.budget(), target)));
}
Value forceescape_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("forceescape", args, {});
  Text text = to_text(runtime.budget(), target);
  text.markup = false;
  return Value(escape_markup(runtime.budget(), text));
}
Value safe_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("safe", args, {});
  Text text = to_text(runtime.budget(), target);
  text.markup = true;
  return Value(std::move(text));
}

void append_quoted(TextBuilder& builder, const Text& text, bool in_query) {
  for (size_t at = 0; at < text.bytes.size(); ++at) {
    const auto c = static_cast<unsigned char>(text.bytes[at]);
    const bool plain =
        c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !in_query));
    const bool literal = text.is_literal_at(at);
    if (plain) {
      builder.append(text, at, at + 1);
    } else if (c == ' ' && in_query) {
      builder.append("+", literal);
    } else {
      builder.append(fmt::format("%{:02X}", c), literal);
    }
  }
}

Value urlencode_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("urlencode", args, {});
  Budget& budget = runtime.budget();
  TextBuilder builder(budget);
  if (!target.is_dict() && !target.is_sequence()) {
    append_quoted(builder, to_text(budget, target), /*in_query=*/false);
    return Value(builder.finish());
  }
  Values pairs;
  if (target.is_dict()) {
    for (const auto& [key, value] : target.dict().entries()) pairs.push_back(make_tuple(budget, {key, value}));
  } else {
    pairs = iterate(budget, target);
  }
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Values pair = iterate(budget, pairs[i]);
    if (pair.size() != 2) fail("urlencode needs pairs of key and value");
    if (i != 0) builder.append("&");
    append_quoted(builder, to_text(budget, pair[0]), /*in_query=*/true);
    builder.append("=");
    append_quoted(builder, to_text(budget, pair[1]), /*in_query=*/true);
  }
  return Value(builder.finish());
}

Value xmlattr_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("xmlattr", args, {"autospace"});
  Budget& budget = runtime.budget();
  require_defined(target);
  if (!target.is_dict()) fail("xmlattr needs a mapping, not {}", type_name(target));
  TextBuilder builder(budget);
  bool first = !given.truth(0, true);
  for (const auto& [key, value] : target.dict().entries()) {
    if (value.is_none() || value.is_undefined()) continue;
    const Text name = to_text(budget, key);
    if (name.bytes.find_first_of(" \t\n\r\f\v/>=") != std::string::npos) fail("Invalid character in attribute name");
    if (!first) builder.append(" ");
    first = false;
    builder.append(escape_markup(budget, name));
    builder.append("=\"");
    builder.append(escape_markup(budget, to_text(budget, value)));
    builder.append("\"");
  }
  return Value(builder.finish());
}

Value format_filter(Runtime& runtime, const Value& target, const Args& args) {
  Budget& budget = runtime.budget();
  if (!args.positional.empty() && !args.named.empty()) {
    fail("can't handle positional and keyword arguments at the same time");
  }
  if (args.named.empty()) return format_percent(budget, to_text(budget, target), make_tuple(budget, args.positional));
  Dict dict;
  for (const auto& [key, value] : args.named) dict.set(Value(key), value);
  return format_percent(budget, to_text(budget, target), make_dict(budget, std::move(dict)));
}

constexpr std::array kFilters = {
    FilterEntry{"capitalize", capitalize_filter},
    FilterEntry{"center", center_filter},
    FilterEntry{"e", escape_filter},
    FilterEntry{"escape", escape_filter},
    FilterEntry{"forceescape", forceescape_filter},
    FilterEntry{"format", format_filter},
    FilterEntry{"indent", indent_filter},
    FilterEntry{"join", join_filter},
    FilterEntry{"lower", lower_filter},
    FilterEntry{"replace", replace_filter},
    FilterEntry{"safe", safe_filter},
    FilterEntry{"title", title_filter},
    FilterEntry{"trim", trim_filter},
    FilterEntry{"truncate", truncate_filter},
    FilterEntry{"upper", upper_filter},
    FilterEntry{"urlencode", urlencode_filter},
    FilterEntry{"wordcount", wordcount_filter},
    FilterEntry{"xmlattr", xmlattr_filter},
};

}  // namespace

std::span<const FilterEntry> text_filters() { return kFilters; }

}  // namespace lockstep::chat::jinja
