// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/scanner.h"

#include <array>

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {
namespace {

enum class Kind : uint8_t { kLetter, kNumber, kSpace, kOther, kEnd };

constexpr std::array<Kind, kCategoryCount> make_kinds() {
  std::array<Kind, kCategoryCount> kinds{};
  for (size_t i = 0; i < kCategoryCount; ++i) {
    const CategorySet bit = CategorySet{1} << i;
    kinds[i] = (bit & kLetter) != 0   ? Kind::kLetter
               : (bit & kNumber) != 0 ? Kind::kNumber
               : (bit & kSpace) != 0  ? Kind::kSpace
                                      : Kind::kOther;
  }
  return kinds;
}
constexpr std::array<Kind, kCategoryCount> kKinds = make_kinds();

constexpr std::array<Kind, 128> make_ascii_kinds() {
  std::array<Kind, 128> kinds{};
  for (unsigned c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    kinds[c] = letter                              ? Kind::kLetter
               : (c >= '0' && c <= '9')            ? Kind::kNumber
               : (c == ' ' || (c >= 9 && c <= 13)) ? Kind::kSpace
                                                   : Kind::kOther;
  }
  return kinds;
}
constexpr std::array<Kind, 128> kAsciiKinds = make_ascii_kinds();

bool is_newline(char c) { return c == '\n' || c == '\r'; }

class Scanner final {
 public:
  Scanner(const WordPattern& pattern, std::string_view text) : pattern_(pattern), text_(text) {}

  // The end of the match that begins at pos. Alternatives in the regex's order.
  size_t match(size_t pos) const {
    const char first = text_[pos];
    if (first == '\'') {
      if (const size_t size = contraction(text_.substr(pos + 1)); size != 0) return pos + 1 + size;
    }
    const Next here = at(pos);
    if (here.kind == Kind::kLetter) return run(here.end, Kind::kLetter);
    const bool takes_prefix = pattern_.any_prefix ? here.kind != Kind::kNumber && !is_newline(first) : first == ' ';
    Next next{};
    if (takes_prefix || first == ' ') {
      next = at(here.end);
      if (takes_prefix && next.kind == Kind::kLetter) return run(next.end, Kind::kLetter);
    }
    if (here.kind == Kind::kNumber) return numbers(here.end);
    if (first == ' ' && next.kind == Kind::kNumber && pattern_.max_digits == 0) return run(next.end, Kind::kNumber);
    if (here.kind == Kind::kOther) return others(here.end);
    if (first == ' ' && next.kind == Kind::kOther) return others(next.end);
    return spaces(pos);
  }

 private:
  struct Next {
    Kind kind = Kind::kEnd;
    size_t end = 0;
  };

  Next at(size_t pos) const {
    if (pos >= text_.size()) return {Kind::kEnd, pos};
    const auto byte = static_cast<unsigned char>(text_[pos]);
    if (byte < 0x80) return {kAsciiKinds[byte], pos + 1};
    const Utf8Char c = utf8_at(text_, pos);
    return {kKinds[table_.at(c.code_point)], pos + c.size};
  }

  size_t run(size_t pos, Kind kind) const {
    for (Next next = at(pos); next.kind == kind; next = at(pos)) pos = next.end;
    return pos;
  }

  size_t numbers(size_t pos) const {
    if (pattern_.max_digits == 0) return run(pos, Kind::kNumber);
    for (int i = 1; i < pattern_.max_digits; ++i) {
      const Next next = at(pos);
      if (next.kind != Kind::kNumber) break;
      pos = next.end;
    }
    return pos;
  }

  size_t others(size_t pos) const {
    pos = run(pos, Kind::kOther);
    while (pattern_.newline_tail && pos < text_.size() && is_newline(text_[pos])) ++pos;
    return pos;
  }

  // \s*[\r\n]+ ends at the run's last newline; \s+(?!\S) leaves the last character to the next word.
  size_t spaces(size_t pos) const {
    size_t end = pos;
    size_t last = pos;
    size_t after_newline = 0;
    for (Next next = at(pos); next.kind == Kind::kSpace; next = at(end)) {
      last = end;
      end = next.end;
      if (is_newline(text_[last])) after_newline = end;
    }
    if (pattern_.newlines && after_newline != 0) return after_newline;
    return end == text_.size() || last == pos ? end : last;
  }

  // Bytes after the apostrophe: s t re ve m ll d.
  size_t contraction(std::string_view rest) const {
    const auto is = [&](size_t i, char lower) {
      return i < rest.size() && (rest[i] == lower || (pattern_.contractions_any_case && rest[i] == lower - 'a' + 'A'));
    };
    if (is(0, 's') || is(0, 't') || is(0, 'm') || is(0, 'd')) return 1;
    if ((is(0, 'r') && is(1, 'e')) || (is(0, 'v') && is(1, 'e')) || (is(0, 'l') && is(1, 'l'))) return 2;
    if (pattern_.contractions_any_case && rest.starts_with("\xC5\xBF")) return 2;  // U+017F, long s, folds to s
    return 0;
  }

  const WordPattern& pattern_;
  std::string_view text_;
  const CategoryTable& table_ = CategoryTable::get();
};

}  // namespace

std::optional<WordPattern> known_word_pattern(std::string_view regex) {
  static constexpr std::pair<std::string_view, WordPattern> kKnown[] = {
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", {}},
      {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", {}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {true, true, 1, true, true}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {true, true, 3, true, true}},
  };
  for (const auto& [text, pattern] : kKnown) {
    if (text == regex) return pattern;
  }
  return std::nullopt;
}

void scan_words(const WordPattern& pattern, std::string_view text, ByteRange range, std::vector<ByteRange>& out) {
  const Scanner scanner(pattern, text.substr(0, range.end));
  for (size_t pos = range.begin; pos < range.end;) {
    const size_t end = scanner.match(pos);
    out.push_back({pos, end});
    pos = end;
  }
}

}  // namespace lockstep::tokenizer
