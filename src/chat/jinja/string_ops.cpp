// SPDX-License-Identifier: Apache-2.0
// The operations behind str's methods and the text filters.
#include <algorithm>

#include "chat/jinja/print.h"
#include "chat/jinja/string_methods.h"

namespace lockstep::chat::jinja {

namespace {

/// The characters of a strip set.
std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> points;
  for (size_t at = 0; at < text.size();) {
    const auto c = decode_at(text, at);
    points.push_back(c.value);
    at += c.bytes;
  }
  return points;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

constexpr char32_t kSigma = 0x3a3;

/// A capital sigma at the end of a word has a small letter of its own.
bool is_final_sigma(std::string_view text, size_t at, size_t bytes) {
  const auto cased = [](char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); };
  const bool after_letter = at > 0 && cased(decode_at(text, previous_character(text, at)).value);
  const bool before_letter = at + bytes < text.size() && cased(decode_at(text, at + bytes).value);
  return after_letter && !before_letter;
}

void append_changed(TextBuilder& builder, const Text& text, size_t at, CodePoint c, Case target) {
  std::string changed;
  if (target == Case::kLower && c.value == kSigma && is_final_sigma(text.bytes, at, c.bytes)) {
    changed = "\u03c2";
  } else {
    append_cased(changed, c.value, target);
  }
  builder.append(changed, text.is_literal_at(at));
}

size_t skip_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const auto c = decode_at(text, at);
    if (!is_space(c.value)) break;
    at += c.bytes;
  }
  return at;
}

size_t skip_word(std::string_view text, size_t at) {
  while (at < text.size()) {
    const auto c = decode_at(text, at);
    if (is_space(c.value)) break;
    at += c.bytes;
  }
  return at;
}

size_t skip_back(std::string_view text, size_t end, bool over_space) {
  while (end > 0) {
    const size_t previous = previous_character(text, end);
    if (is_space(decode_at(text, previous).value) != over_space) break;
    end = previous;
  }
  return end;
}

Values split_words(Budget& budget, const Text& text, Int count) {
  Values parts;
  size_t at = skip_space(text.bytes, 0);
  while (at < text.bytes.size()) {
    const bool last = count >= 0 && static_cast<Int>(parts.size()) >= count;
    const size_t end = last ? text.bytes.size() : skip_word(text.bytes, at);
    parts.emplace_back(slice_bytes(budget, text, at, end));
    at = skip_space(text.bytes, end);
  }
  return parts;
}

Values split_words_right(Budget& budget, const Text& text, Int count) {
  Values parts;
  size_t end = skip_back(text.bytes, text.bytes.size(), /*over_space=*/true);
  while (end > 0) {
    const bool last = count >= 0 && static_cast<Int>(parts.size()) >= count;
    const size_t begin = last ? 0 : skip_back(text.bytes, end, /*over_space=*/false);
    parts.emplace_back(slice_bytes(budget, text, begin, end));
    end = skip_back(text.bytes, begin, /*over_space=*/true);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace

Values characters(Budget& budget, const Text& text) {
  Values parts;
  for (size_t at = 0; at < text.bytes.size();) {
    budget.step();
    const size_t end = at + decode_at(text.bytes, at).bytes;
    parts.emplace_back(slice_bytes(budget, text, at, end));
    at = end;
  }
  return parts;
}

Text slice_bytes(Budget& budget, const Text& text, size_t begin, size_t end) {
  TextBuilder builder(budget);
  builder.append(text, begin, end);
  return builder.finish();
}

Text strip(Budget& budget, const Text& text, const Text* set, bool left, bool right) {
  const std::vector<char32_t> points = set == nullptr ? std::vector<char32_t>() : code_points(set->bytes);
  const auto drops = [&](char32_t c) {
    return set == nullptr ? is_space(c) : std::find(points.begin(), points.end(), c) != points.end();
  };
  size_t begin = 0;
  size_t end = text.bytes.size();
  while (left && begin < end) {
    const auto c = decode_at(text.bytes, begin);
    if (!drops(c.value)) break;
    begin += c.bytes;
  }
  while (right && end > begin) {
    const size_t previous = previous_character(text.bytes, end);
    if (!drops(decode_at(text.bytes, previous).value)) break;
    end = previous;
  }
  return slice_bytes(budget, text, begin, end);
}

Text replace(Budget& budget, const Text& text, const Text& from, const Text& to, Int count) {
  TextBuilder builder(budget);
  const auto more = [&count] { return count < 0 || count-- > 0; };
  const std::string& bytes = text.bytes;
  size_t at = 0;
  if (from.bytes.empty()) {
    while (more()) {
      builder.append(to);
      if (at == bytes.size()) return builder.finish();
      const size_t next = at + decode_at(bytes, at).bytes;
      builder.append(text, at, next);
      at = next;
    }
  } else {
    for (size_t found = bytes.find(from.bytes); found != std::string::npos && more();
         found = bytes.find(from.bytes, at)) {
      builder.append(text, at, found);
      builder.append(to);
      at = found + from.bytes.size();
    }
  }
  builder.append(text, at, bytes.size());
  return builder.finish();
}

Text change_case(Budget& budget, const Text& text, Case target) {
  if (is_ascii(text.bytes)) {
    budget.bytes(text.bytes.size());
    Text changed = text;
    for (char& c : changed.bytes) {
      if (target == Case::kLower ? (c >= 'A' && c <= 'Z') : (c >= 'a' && c <= 'z')) c = static_cast<char>(c ^ 0x20);
    }
    return changed;
  }
  TextBuilder builder(budget);
  for (size_t at = 0; at < text.bytes.size();) {
    const auto c = decode_at(text.bytes, at);
    append_changed(builder, text, at, c, target);
    at += c.bytes;
  }
  return builder.finish();
}

Text capitalize(Budget& budget, const Text& text) {
  TextBuilder builder(budget);
  for (size_t at = 0; at < text.bytes.size();) {
    const auto c = decode_at(text.bytes, at);
    append_changed(builder, text, at, c, at == 0 ? Case::kTitle : Case::kLower);
    at += c.bytes;
  }
  return builder.finish();
}

Values split(Budget& budget, const Text& text, const Text* separator, Int count) {
  if (separator == nullptr) return split_words(budget, text, count);
  if (separator->bytes.empty()) fail("empty separator");
  Values parts;
  size_t at = 0;
  while (count < 0 || static_cast<Int>(parts.size()) < count) {
    const size_t found = text.bytes.find(separator->bytes, at);
    if (found == std::string::npos) break;
    parts.emplace_back(slice_bytes(budget, text, at, found));
    at = found + separator->bytes.size();
  }
  parts.emplace_back(slice_bytes(budget, text, at, text.bytes.size()));
  return parts;
}

Values split_right(Budget& budget, const Text& text, const Text* separator, Int count) {
  if (separator == nullptr) return split_words_right(budget, text, count);
  if (separator->bytes.empty()) fail("empty separator");
  const size_t width = separator->bytes.size();
  Values parts;
  size_t end = text.bytes.size();
  while ((count < 0 || static_cast<Int>(parts.size()) < count) && end >= width) {
    const size_t found = text.bytes.rfind(separator->bytes, end - width);
    if (found == std::string::npos) break;
    parts.emplace_back(slice_bytes(budget, text, found + width, end));
    end = found;
  }
  parts.emplace_back(slice_bytes(budget, text, 0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Values split_lines(Budget& budget, const Text& text, bool keep_ends) {
  Values lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.bytes.size();) {
    const auto c = decode_at(text.bytes, at);
    size_t next = at + c.bytes;
    if (is_line_break(c.value)) {
      if (c.value == '\r' && next < text.bytes.size() && text.bytes[next] == '\n') ++next;
      lines.emplace_back(slice_bytes(budget, text, begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < text.bytes.size()) lines.emplace_back(slice_bytes(budget, text, begin, text.bytes.size()));
  return lines;
}

Text join(Budget& budget, const Text& separator, const Values& items, bool convert) {
  TextBuilder builder(budget);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i != 0) builder.append(separator);
    if (!convert && !items[i].is_string()) {
      fail("sequence item {}: expected str instance, {} found", i, type_name(items[i]));
    }
    append_printed(builder, items[i]);
  }
  return builder.finish();
}

Text pad(Budget& budget, const Text& text, Int width, const Text& fill, bool left, bool right) {
  if (count_characters(fill.bytes) != 1) fail("The fill character must be exactly one character long");
  if (width > static_cast<Int>(budget.limits().max_value_bytes)) fail_limit("a text is filled up to too great a width");
  const auto wanted = static_cast<size_t>(std::max(Int{0}, width));
  const size_t have = count_characters(text.bytes);
  const size_t room = wanted > have ? wanted - have : 0;
  size_t before = left ? room : 0;
  if (left && right) before = room / 2 + (room & wanted & 1u);  // str.center's rounding
  TextBuilder builder(budget);
  for (size_t i = 0; i < before; ++i) builder.append(fill);
  builder.append(text);
  for (size_t i = before; i < room; ++i) builder.append(fill);
  return builder.finish();
}

Text escape_markup(Budget& budget, const Text& text) {
  if (text.markup) return text;
  TextBuilder builder(budget);
  for (size_t at = 0; at < text.bytes.size(); ++at) {
    const bool literal = text.is_literal_at(at);
    switch (text.bytes[at]) {
      case '&':
        builder.append("&amp;", literal);
        break;
      case '<':
        builder.append("&lt;", literal);
        break;
      case '>':
        builder.append("&gt;", literal);
        break;
      case '\'':
        builder.append("&#39;", literal);
        break;
      case '"':
        builder.append("&#34;", literal);
        break;
      default:
        builder.append(text, at, at + 1);
    }
  }
  Text escaped = builder.finish();
  escaped.markup = true;
  return escaped;
}

}  // namespace lockstep::chat::jinja
