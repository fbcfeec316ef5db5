// SPDX-License-Identifier: Apache-2.0
// json.dumps, as Python writes it.
#include <algorithm>
#include <cmath>

#include "chat/jinja/number.h"
#include "chat/jinja/print.h"
#include "chat/jinja/unicode.h"

namespace lockstep::chat::jinja {

namespace {

/// What JSON writes instead of `c`, or "" for the character itself.
std::string json_escape(char32_t c, bool ensure_ascii) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      break;
  }
  const auto value = static_cast<uint32_t>(c);
  if (value < 0x20) return fmt::format("\\u{:04x}", value);
  if (!ensure_ascii || value < 0x7f) return "";
  if (value < 0x10000) return fmt::format("\\u{:04x}", value);
  const uint32_t rest = value - 0x10000;
  return fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10), 0xdc00 + (rest & 0x3ffu));
}

std::string json_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return float_repr(value);
}

class JsonWriter {
 public:
  JsonWriter(TextBuilder& out, const JsonStyle& style) : out_(out), style_(style) {}

  void write(const Value& value) {
    out_.budget().step();
    switch (value.kind()) {
      case Kind::kNone:
        return out_.append("null");
      case Kind::kBool:
        return out_.append(value.as_bool() ? "true" : "false");
      case Kind::kInt:
        return out_.append(int_to_string(value.as_int()));
      case Kind::kFloat:
        return out_.append(json_float(value.as_float()));
      case Kind::kString:
        return write_string(value.text());
      case Kind::kDict:
        return write_dict(value.dict());
      case Kind::kSequence:
        if (value.sequence().type == SequenceType::kList || value.sequence().type == SequenceType::kTuple) {
          return write_list(value.sequence().items);
        }
        break;
      default:
        break;
    }
    fail("Object of type {} is not JSON serializable", type_name(value));
  }

 private:
  void write_string(const Text& text) {
    out_.append("\"");
    size_t done = 0;
    for (size_t at = 0; at < text.bytes.size();) {
      const auto c = decode_at(text.bytes, at);
      const std::string escape = json_escape(c.value, style_.ensure_ascii);
      if (!escape.empty()) {
        out_.append(text, done, at);
        out_.append(escape, text.is_literal_at(at));
        done = at + c.bytes;
      }
      at += c.bytes;
    }
    out_.append(text, done, text.bytes.size());
    out_.append("\"");
  }

  void new_line() {
    if (!style_.indent) return;
    out_.append("\n");
    out_.append_repeated(*style_.indent, level_);
  }

  void write_list(const Values& items) {
    if (items.empty()) return out_.append("[]");
    out_.append("[");
    ++level_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_.append(style_.item_separator);
      first = false;
      new_line();
      write(item);
    }
    --level_;
    new_line();
    out_.append("]");
  }

  void write_dict(const Dict& dict) {
    if (dict.size() == 0) return out_.append("{}");
    std::vector<const Dict::Entry*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) sort(entries);
    out_.append("{");
    ++level_;
    bool first = true;
    for (const auto* entry : entries) {
      if (!first) out_.append(style_.item_separator);
      first = false;
      new_line();
      write_key(entry->first);
      out_.append(style_.key_separator);
      write(entry->second);
    }
    --level_;
    new_line();
    out_.append("}");
  }

  static void sort(std::vector<const Dict::Entry*>& entries) {
    for (const auto* entry : entries) {
      if (!entry->first.is_string()) fail("sort_keys needs keys that are strings, got {}", type_name(entry->first));
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Dict::Entry* a, const Dict::Entry* b) { return a->first.bytes() < b->first.bytes(); });
  }

  void write_key(const Value& key) {
    if (key.is_string()) return write_string(key.text());
    if (!key.is_number() && !key.is_none()) {
      fail("keys must be str, int, float, bool or None, not {}", type_name(key));
    }
    out_.append("\"");
    write(key);
    out_.append("\"");
  }

  TextBuilder& out_;
  const JsonStyle& style_;
  size_t level_ = 0;
};

}  // namespace

void append_json(TextBuilder& out, const Value& value, const JsonStyle& style) { JsonWriter(out, style).write(value); }

}  // namespace lockstep::chat::jinja
