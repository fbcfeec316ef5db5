// SPDX-License-Identifier: Apache-2.0
// text.format(*args, **kwargs)
#include <algorithm>

#include "chat/jinja/access.h"
#include "chat/jinja/format_spec.h"
#include "chat/jinja/number.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/string_methods.h"

namespace lockstep::chat::jinja {

namespace {

class BraceFormatter {
 public:
  BraceFormatter(Runtime& runtime, const Args& args) : runtime_(runtime), args_(args) {}

  Text run(const Text& format, int nesting) {
    if (nesting > 2) fail("Max string recursion exceeded");
    TextBuilder out(runtime_.budget());
    const std::string& bytes = format.bytes;
    size_t at = 0;
    while (at < bytes.size()) {
      const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.append(format, at, brace);
      at = brace;
      if (at == bytes.size()) break;
      if (at + 1 < bytes.size() && bytes[at + 1] == bytes[at]) {
        out.append(format, at, at + 1);
        at += 2;
        continue;
      }
      if (bytes[at] == '}') fail("Single '}}' encountered in format string");
      const size_t close = field_end(bytes, at);
      out.append(format_field(slice_bytes(runtime_.budget(), format, at + 1, close), nesting));
      at = close + 1;
    }
    return out.finish();
  }

 private:
  static size_t field_end(std::string_view bytes, size_t open) {
    int depth = 0;
    for (size_t at = open; at < bytes.size(); ++at) {
      if (bytes[at] == '{') ++depth;
      if (bytes[at] == '}' && --depth == 0) return at;
    }
    fail("expected '}}' before end of string");
  }

  /// name[!conversion][:spec]
  Text format_field(const Text& field, int nesting) {
    const std::string& bytes = field.bytes;
    const size_t name_end = std::min(bytes.find_first_of("!:"), bytes.size());
    const Value value = look_up(bytes.substr(0, name_end));
    size_t at = name_end;
    char conversion = '\0';
    if (at < bytes.size() && bytes[at] == '!') {
      if (at + 1 >= bytes.size()) fail("unmatched '{{' in format spec");
      conversion = bytes[at + 1];
      at += 2;
      if (at < bytes.size() && bytes[at] != ':') fail("expected ':' after conversion specifier");
    }
    FormatSpec spec;
    if (at < bytes.size()) {
      spec = parse_format_spec(run(slice_bytes(runtime_.budget(), field, at + 1, bytes.size()), nesting + 1).bytes);
    }
    return format_value(runtime_.budget(), converted(value, conversion), spec);
  }

  Value converted(const Value& value, char conversion) {
    if (conversion == '\0') return value;
    if (conversion == 's') return Value(to_text(runtime_.budget(), value));
    if (conversion != 'r' && conversion != 'a') fail("Unknown conversion specifier {}", conversion);
    TextBuilder builder(runtime_.budget());
    append_repr(builder, value);
    return Value(builder.finish());
  }

  /// first(.attribute | [index])*
  Value look_up(std::string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = first_value(name.substr(0, first_end));
    std::string_view rest = name.substr(first_end);
    while (!rest.empty()) {
      if (rest.front() == '.') {
        const size_t end = std::min(rest.find_first_of(".[", 1), rest.size());
        value = get_attribute(runtime_, value, rest.substr(1, end - 1));
        rest.remove_prefix(end);
        continue;
      }
      const size_t close = rest.find(']');
      if (rest.front() != '[' || close == std::string_view::npos) fail("Missing ']' in format string");
      const std::string_view key = rest.substr(1, close - 1);
      const auto index = is_number(key) ? parse_int(key, 10) : std::nullopt;
      value = get_item(runtime_, value, index ? Value(*index) : Value::string(key));
      rest.remove_prefix(close + 1);
    }
    return value;
  }

  static bool is_number(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  }

  Value first_value(std::string_view name) {
    size_t index = next_;
    if (name.empty()) {
      if (explicit_) fail("cannot switch from manual field specification to automatic field numbering");
      automatic_ = true;
      ++next_;
    } else if (is_number(name)) {
      if (automatic_) fail("cannot switch from automatic field numbering to manual field specification");
      explicit_ = true;
      index = static_cast<size_t>(std::min(parse_int(name, 10).value_or(0), Int{1} << 30));
    } else {
      for (const auto& [key, value] : args_.named) {
        if (key->bytes == name) return value;
      }
      fail("KeyError: '{}'", name);
    }
    if (index >= args_.positional.size()) fail("Replacement index {} out of range for positional args tuple", index);
    return args_.positional[index];
  }

  Runtime& runtime_;
  const Args& args_;
  size_t next_ = 0;
  bool automatic_ = false;
  bool explicit_ = false;
};

}  // namespace

Text format_braces(Runtime& runtime, const Text& format, const Args& args) {
  return BraceFormatter(runtime, args).run(format, 1);
}

}  // namespace lockstep::chat::jinja
