// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/regex_translate.h"

#include <cctype>

#include "tokenizer/unicode.h"

namespace lockstep::tokenizer {
namespace {

// Han of Unicode 16 (PCRE2's own lacks extensions H and I and takes script extensions in).
constexpr std::string_view kHan =
    "\\x{2E80}-\\x{2E99}\\x{2E9B}-\\x{2EF3}\\x{2F00}-\\x{2FD5}\\x{3005}\\x{3007}\\x{3021}-\\x{3029}\\x{3038}-\\x{303B}"
    "\\x{3400}-\\x{4DBF}\\x{4E00}-\\x{9FFF}\\x{F900}-\\x{FA6D}\\x{FA70}-\\x{FAD9}\\x{16FE2}-\\x{16FE3}"
    "\\x{16FF0}-\\x{16FF1}\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2B739}\\x{2B740}-\\x{2B81D}\\x{2B820}-\\x{2CEA1}"
    "\\x{2CEB0}-\\x{2EBE0}\\x{2EBF0}-\\x{2EE5D}\\x{2F800}-\\x{2FA1D}\\x{30000}-\\x{3134A}\\x{31350}-\\x{323AF}";

// What PCRE2's own scripts lack of Unicode 16, for those that patterns name.
std::string_view newer_in_script(std::string_view name) {
  if (name == "Cyrillic") return "\\x{1C89}-\\x{1C8A}\\x{1E030}-\\x{1E06D}\\x{1E08F}";
  if (name == "Latin") return "\\x{A7CB}-\\x{A7CD}\\x{A7DA}-\\x{A7DC}\\x{1DF25}-\\x{1DF2A}";
  if (name == "Hiragana") return "\\x{1B132}";
  if (name == "Katakana") return "\\x{1B155}";
  return "";
}

std::string spell(const std::vector<CodePointRange>& ranges) {
  std::string out;
  for (const CodePointRange& range : ranges) {
    out += fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(range.first));
    if (range.last != range.first) out += fmt::format("-\\x{{{:X}}}", static_cast<uint32_t>(range.last));
  }
  return out;
}

// The inside of a class that matches `set`: PCRE2's own properties, which are fast, and what it doesn't know yet.
std::string class_body(CategorySet set) {
  static constexpr std::pair<std::string_view, CategorySet> kMajor[] = {
      {"L", kLetter}, {"M", kMark}, {"N", kNumber}, {"P", kPunctuation}, {"S", kSymbol}};
  std::string out;
  CategorySet rest = set;
  for (const auto& [name, major] : kMajor) {
    if ((set & major) != major) continue;
    out += fmt::format("\\p{{{}}}", name);
    rest &= ~major;
  }
  return out + spell(ranges_of(set & ~rest, /*newer_only=*/true)) + spell(ranges_of(rest, /*newer_only=*/false));
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Expected<std::string> run() {
    while (pos_ < in_.size()) {
      const char c = in_[pos_];
      if (c == '\\') {
        LOCKSTEP_RETURN_IF_ERROR(escape());
      } else if (in_class_) {
        LOCKSTEP_RETURN_IF_ERROR(class_char());
      } else {
        if (c == '[') {
          in_class_ = true;
          class_start_ = pos_ + (in_.substr(pos_ + 1).starts_with('^') ? 2 : 1);
          out_.append(in_.substr(pos_, class_start_ - pos_));
          pos_ = class_start_;
          continue;
        }
        out_.push_back(c);
        ++pos_;
      }
    }
    return std::move(out_);
  }

 private:
  Status class_char() {
    const std::string_view rest = in_.substr(pos_);
    if (rest.starts_with("[:")) {
      const size_t end = rest.find(":]");
      if (end == std::string_view::npos) return refuse("[:");
      out_.append(rest.substr(0, end + 2));
      pos_ += end + 2;
      return {};
    }
    if (rest.starts_with("&&")) return refuse("&& in a class");
    if (rest.front() == '[') return refuse("a class in a class");
    if (rest.front() == ']' && pos_ != class_start_) in_class_ = false;
    out_.push_back(rest.front());
    ++pos_;
    return {};
  }

  Status escape() {
    if (pos_ + 1 >= in_.size()) return error(StatusCode::kInvalidArgument, "the pattern ends in a backslash");
    const char kind = in_[pos_ + 1];
    const std::string_view escape_text = in_.substr(pos_, 2);
    pos_ += 2;
    switch (kind) {
      case 's':
        put(kSpace, false);
        return {};
      case 'S':
        put(kSpace, true);
        return {};
      case 'd':
        put(categories(kCNd), false);
        return {};
      case 'D':
        put(categories(kCNd), true);
        return {};
      case 'w':
        put(kWord, false);
        return {};
      case 'W':
        put(kWord, true);
        return {};
      case 'p':
        return property(false);
      case 'P':
        return property(true);
      case 'u':
        return code_point();
      case 'h':
      case 'H':
      case 'R':
      case 'X':
      case 'K':
      case 'G':
      case 'C':
      case 'g':
      case 'k':
      case 'N':
      case 'Q':
      case 'E':
        return refuse(escape_text);
      default:
        out_.append(escape_text);
        return {};
    }
  }

  Status property(bool negated) {
    const size_t end = in_.find('}', pos_);
    if (pos_ >= in_.size() || in_[pos_] != '{' || end == std::string_view::npos) return refuse("\\p without {name}");
    std::string_view name = in_.substr(pos_ + 1, end - pos_ - 1);
    pos_ = end + 1;
    if (name.starts_with('^')) {
      negated = !negated;
      name.remove_prefix(1);
    }
    if (const auto set = categories_named(name)) {
      put(*set, negated);
      return {};
    }
    for (const char c : name) {
      if (std::isalpha(static_cast<unsigned char>(c)) == 0 && c != '_') return refuse("\\p{" + std::string(name) + "}");
    }
    const std::string body =
        name == "Han" ? std::string(kHan) : fmt::format("\\p{{sc:{}}}{}", name, newer_in_script(name));
    if (in_class_ && negated) return refuse("a negated script in a class");
    out_ += in_class_ ? body : fmt::format("[{}{}]", negated ? "^" : "", body);
    return {};
  }

  Status code_point() {
    const std::string_view digits = in_.substr(pos_, 4);
    for (const char c : digits) {
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return refuse("\\u");
    }
    if (digits.size() != 4) return refuse("\\u");
    out_ += fmt::format("\\x{{{}}}", digits);
    pos_ += 4;
    return {};
  }

  void put(CategorySet set, bool negated) {
    if (!in_class_) {
      out_ += fmt::format("[{}{}]", negated ? "^" : "", class_body(set));
    } else {
      out_ += negated ? spell(ranges_of(~set, /*newer_only=*/false)) : class_body(set);
    }
  }

  static Status refuse(std::string_view what) {
    return error(StatusCode::kUnsupported, "{} is not supported in a regex", what);
  }

  static constexpr CategorySet kWord = kLetter | kMark | kNumber | categories(kCPc);  // Oniguruma's, with all of N

  std::string_view in_;
  size_t pos_ = 0;
  bool in_class_ = false;
  size_t class_start_ = 0;
  std::string out_;
};

}  // namespace

Expected<std::string> translate_regex(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace lockstep::tokenizer
