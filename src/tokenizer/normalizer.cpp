// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/normalizer.h"

#include <algorithm>

#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {

void Rewriter::keep_until(size_t position) {
  out_.append(target_.text, read_, position - read_);
  read_ = position;
}

void Rewriter::replace(size_t old_size, std::string_view text) {
  const size_t begin = out_.size();
  out_.append(text);
  edits_.push_back({{read_, read_ + old_size}, {begin, out_.size()}});
  read_ += old_size;
}

void Rewriter::finish() {
  keep_until(target_.text.size());
  target_.text = std::move(out_);
  size_t shift_edit = 0;  // edits before this one end at or before the position at hand
  const auto moved = [&](size_t position, bool is_end) {
    while (shift_edit < edits_.size() && edits_[shift_edit].before.end <= position) ++shift_edit;
    if (shift_edit < edits_.size() && edits_[shift_edit].before.begin < position) {
      return is_end ? edits_[shift_edit].after.end : edits_[shift_edit].after.begin;
    }
    const size_t old_base = shift_edit == 0 ? 0 : edits_[shift_edit - 1].before.end;
    const size_t new_base = shift_edit == 0 ? 0 : edits_[shift_edit - 1].after.end;
    return new_base + (position - old_base);
  };
  std::vector<ByteRange> ranges;
  for (const ByteRange& range : target_.literal) {
    const ByteRange next{moved(range.begin, false), moved(range.end, true)};
    if (!ranges.empty() && next.begin < ranges.back().end) {
      ranges.back().end = std::max(ranges.back().end, next.end);  // both share one replacement
    } else if (next.begin < next.end) {
      ranges.push_back(next);
    }
  }
  target_.literal = std::move(ranges);
}

namespace {

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  Status apply(NormalizedText& target) const override {
    if (target.text.empty()) return {};
    Rewriter rewriter(target);
    rewriter.replace(0, text_);
    rewriter.finish();
    return {};
  }
  bool leaves(std::string_view text) const override { return text.empty(); }

 private:
  std::string text_;
};

class Replace final : public Normalizer {
 public:
  Replace(std::string pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  Status apply(NormalizedText& target) const override {
    Rewriter rewriter(target);
    const std::string_view text = target.text;
    for (size_t pos = 0; (pos = text.find(pattern_, pos)) != std::string_view::npos; pos += pattern_.size()) {
      rewriter.keep_until(pos);
      rewriter.replace(pattern_.size(), content_);
    }
    rewriter.finish();
    return {};
  }
  bool leaves(std::string_view text) const override { return text.find(pattern_) == std::string_view::npos; }

 private:
  std::string pattern_;
  std::string content_;
};

class RegexReplace final : public Normalizer {
 public:
  RegexReplace(std::shared_ptr<const Regex> regex, std::string content)
      : regex_(std::move(regex)), content_(std::move(content)) {}
  Status apply(NormalizedText& target) const override {
    Rewriter rewriter(target);
    RegexMatcher matcher(*regex_);
    const std::string_view text = target.text;
    for (size_t pos = 0; pos <= text.size();) {
      LOCKSTEP_ASSIGN_OR_RETURN(const RegexMatch match, matcher.find(text, pos));
      if (!match.found) break;
      rewriter.keep_until(match.begin);
      rewriter.replace(match.end - match.begin, content_);
      pos = match.end;
      if (match.begin == match.end) pos += pos < text.size() ? utf8_at(text, pos).size : 1;
    }
    rewriter.finish();
    return {};
  }
  bool leaves(std::string_view text) const override { return text.empty(); }

 private:
  std::shared_ptr<const Regex> regex_;
  std::string content_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  Status apply(NormalizedText& target) const override {
    const ByteRange rest = kept(target.text);
    Rewriter rewriter(target);
    rewriter.replace(rest.begin, "");
    rewriter.keep_until(rest.end);
    rewriter.replace(target.text.size() - rest.end, "");
    rewriter.finish();
    return {};
  }
  bool leaves(std::string_view text) const override { return kept(text) == ByteRange{0, text.size()}; }

 private:
  ByteRange kept(std::string_view text) const {
    const CategoryTable& table = CategoryTable::get();
    ByteRange rest{0, text.size()};
    while (right_ && rest.end > 0) {
      const size_t before = utf8_previous(text, rest.end);
      if (!table.in(utf8_at(text, before).code_point, kSpace)) break;
      rest.end = before;
    }
    while (left_ && rest.begin < rest.end) {
      const Utf8Char c = utf8_at(text, rest.begin);
      if (!table.in(c.code_point, kSpace)) break;
      rest.begin += c.size;
    }
    return rest;
  }
  bool left_;
  bool right_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_prepend(std::string text) { return std::make_unique<Prepend>(std::move(text)); }

std::unique_ptr<const Normalizer> make_replace(std::string pattern, std::string content) {
  return std::make_unique<Replace>(std::move(pattern), std::move(content));
}

Expected<std::unique_ptr<const Normalizer>> make_regex_replace(std::string_view regex, std::string content) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto compiled, Regex::compile(regex));
  return std::make_unique<RegexReplace>(std::move(compiled), std::move(content));
}

std::unique_ptr<const Normalizer> make_strip(bool left, bool right) { return std::make_unique<Strip>(left, right); }

}  // namespace lockstep::tokenizer
