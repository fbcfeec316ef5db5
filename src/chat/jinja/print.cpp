// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/print.h"

#include "chat/jinja/number.h"
#include "chat/jinja/unicode.h"

namespace lockstep::chat::jinja {

namespace {

void append_escape(std::string& out, char32_t c) {
  switch (c) {
    case '\n':
      out += "\\n";
      break;
    case '\r':
      out += "\\r";
      break;
    case '\t':
      out += "\\t";
      break;
    default: {
      const auto value = static_cast<uint32_t>(c);
      out += value < 0x100 ? fmt::format("\\x{:02x}", value)
                           : (value < 0x10000 ? fmt::format("\\u{:04x}", value) : fmt::format("\\U{:08x}", value));
    }
  }
}

void append_string_repr(TextBuilder& out, const Text& text) {
  const bool single = text.bytes.find('\'') != std::string::npos;
  const char quote = single && text.bytes.find('"') == std::string::npos ? '"' : '\'';
  out.append(std::string_view(&quote, 1));
  size_t done = 0;
  const auto flush = [&](size_t end) { out.append(text, done, end); };
  for (size_t at = 0; at < text.bytes.size();) {
    const auto c = decode_at(text.bytes, at);
    const bool escaped = c.value == '\\' || c.value == static_cast<char32_t>(quote);
    if (escaped || !is_printable(c.value)) {
      flush(at);
      std::string escape;
      if (escaped) {
        escape = {'\\', static_cast<char>(c.value)};
      } else {
        append_escape(escape, c.value);
      }
      out.append(escape, text.is_literal_at(at));
      done = at + c.bytes;
    }
    at += c.bytes;
  }
  flush(text.bytes.size());
  out.append(std::string_view(&quote, 1));
}

void append_items(TextBuilder& out, const Values& items, std::string_view open, std::string_view close) {
  out.append(open);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out.append(", ");
    append_repr(out, items[i]);
  }
  out.append(close);
}

void append_sequence(TextBuilder& out, const Sequence& sequence) {
  switch (sequence.type) {
    case SequenceType::kList:
      return append_items(out, sequence.items, "[", "]");
    case SequenceType::kTuple:
      return append_items(out, sequence.items, "(", sequence.items.size() == 1 ? ",)" : ")");
    case SequenceType::kRange:
      out.append(fmt::format("range({}, {}", int_to_string(sequence.range[0]), int_to_string(sequence.range[1])));
      out.append(sequence.range[2] == 1 ? ")" : fmt::format(", {})", int_to_string(sequence.range[2])));
      return;
    case SequenceType::kKeys:
      return append_items(out, sequence.items, "dict_keys([", "])");
    case SequenceType::kValues:
      return append_items(out, sequence.items, "dict_values([", "])");
    case SequenceType::kItems:
      return append_items(out, sequence.items, "dict_items([", "])");
    case SequenceType::kIterator:
      return out.append(fmt::format("<{} object>", sequence.iterator_name));
  }
}

void append_dict(TextBuilder& out, const Dict& dict) {
  out.append("{");
  bool first = true;
  for (const auto& [key, value] : dict.entries()) {
    if (!first) out.append(", ");
    first = false;
    append_repr(out, key);
    out.append(": ");
    append_repr(out, value);
  }
  out.append("}");
}

Value json_string(Budget& budget, const std::string& bytes, bool literal) {
  TextBuilder builder(budget);
  builder.append(bytes, literal);
  return Value(builder.finish());
}

}  // namespace

void append_printed(TextBuilder& out, const Value& value) {
  if (value.is_string()) return out.append(value.text());
  if (value.is_undefined()) return;
  append_repr(out, value);
}

Text to_text(Budget& budget, const Value& value) {
  if (value.is_string()) return value.text();
  TextBuilder builder(budget);
  append_printed(builder, value);
  return builder.finish();
}

void append_repr(TextBuilder& out, const Value& value) {
  out.budget().step();
  switch (value.kind()) {
    case Kind::kUndefined:
      return out.append("Undefined");
    case Kind::kNone:
      return out.append("None");
    case Kind::kBool:
      return out.append(value.as_bool() ? "True" : "False");
    case Kind::kInt:
      return out.append(int_to_string(value.as_int()));
    case Kind::kFloat:
      return out.append(float_repr(value.as_float()));
    case Kind::kString:
      return append_string_repr(out, value.text());
    case Kind::kSequence:
      return append_sequence(out, value.sequence());
    case Kind::kDict:
      return append_dict(out, value.dict());
    case Kind::kObject:
      return value.object()->append_repr(out);
  }
}

Value from_json(Budget& budget, const nlohmann::ordered_json& json, bool literal) {
  using Type = nlohmann::ordered_json::value_t;
  budget.step();
  switch (json.type()) {
    case Type::boolean:
      return Value(json.get<bool>());
    case Type::number_integer:
      return Value(Int{json.get<int64_t>()});
    case Type::number_unsigned:
      return Value(Int{json.get<uint64_t>()});
    case Type::number_float:
      return Value(json.get<double>());
    case Type::string:
      return json_string(budget, json.get_ref<const std::string&>(), literal);
    case Type::array: {
      Values items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json(budget, item, literal));
      return make_list(budget, std::move(items));
    }
    case Type::object: {
      Dict dict;
      for (const auto& [key, value] : json.items()) {
        dict.set(json_string(budget, key, literal), from_json(budget, value, literal));
      }
      return make_dict(budget, std::move(dict));
    }
    default:
      return Value();
  }
}

}  // namespace lockstep::chat::jinja
