// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/pretokenizer.h"

#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {

void Pieces::reset(std::string_view whole, bool starts_text) {
  text = whole;
  at_text_start = starts_text;
  ranges.clear();
  if (!whole.empty()) ranges.push_back({0, whole.size()});
}

namespace {

// Turns a piece's matches and the gaps between them into new pieces.
class Cutter final {
 public:
  Cutter(std::vector<ByteRange>& out, SplitBehavior behavior, bool invert)
      : out_(out), behavior_(behavior), invert_(invert) {}

  void begin_piece(ByteRange piece) {
    piece_ = piece;
    done_ = piece.begin;
    has_previous_ = false;
    last_ = Last::kNone;
  }
  void match(size_t begin, size_t end) {
    if (begin > done_) part(done_, begin, invert_);
    part(begin, end, !invert_);
    done_ = end;
  }
  void end_piece() {
    if (done_ < piece_.end) part(done_, piece_.end, invert_);
    if (last_ == Last::kPendingMatch) push(pending_.begin, pending_.end);
  }

 private:
  enum class Last { kNone, kMatch, kOther, kPendingMatch };

  void push(size_t begin, size_t end) {
    if (begin < end) out_.push_back({begin, end});
    has_previous_ = has_previous_ || begin < end;
  }
  void extend(size_t end) { out_.back().end = end; }

  void part(size_t begin, size_t end, bool is_match) {
    switch (behavior_) {
      case SplitBehavior::kIsolated:
        push(begin, end);
        break;
      case SplitBehavior::kRemoved:
        if (!is_match) push(begin, end);
        break;
      case SplitBehavior::kContiguous:
        if (has_previous_ && (last_ == Last::kMatch) == is_match) {
          extend(end);
        } else {
          push(begin, end);
        }
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (is_match && last_ == Last::kOther && has_previous_) {
          extend(end);
        } else {
          push(begin, end);
        }
        break;
      case SplitBehavior::kMergedWithNext:
        merge_with_next(begin, end, is_match);
        return;
    }
    last_ = is_match ? Last::kMatch : Last::kOther;
  }

  // A match waits for the part after it; a second match in a row does not merge with the first.
  void merge_with_next(size_t begin, size_t end, bool is_match) {
    const bool waiting = last_ == Last::kPendingMatch;
    if (is_match) {
      if (waiting) push(pending_.begin, pending_.end);
      pending_ = {begin, end};
      last_ = Last::kPendingMatch;
    } else {
      push(waiting ? pending_.begin : begin, end);
      last_ = Last::kOther;
    }
  }

  std::vector<ByteRange>& out_;
  const SplitBehavior behavior_;
  const bool invert_;
  ByteRange piece_;
  ByteRange pending_;
  size_t done_ = 0;
  bool has_previous_ = false;
  Last last_ = Last::kNone;
};

// Base of the steps that only cut. Derived::matches(piece text, on_match) -> Status, offsets within the piece.
template <class Derived>
class CuttingStep : public PreTokenizer {
 public:
  CuttingStep(SplitBehavior behavior, bool invert) : behavior_(behavior), invert_(invert) {}
  Status split(Pieces& pieces) const final {
    pieces.spare.clear();
    Cutter cutter(pieces.spare, behavior_, invert_);
    for (const ByteRange& range : pieces.ranges) {
      cutter.begin_piece(range);
      const auto on_match = [&](size_t begin, size_t end) { cutter.match(range.begin + begin, range.begin + end); };
      LOCKSTEP_RETURN_IF_ERROR(static_cast<const Derived*>(this)->matches(
          pieces.text.substr(range.begin, range.end - range.begin), on_match));
      cutter.end_piece();
    }
    pieces.ranges.swap(pieces.spare);
    return {};
  }

 private:
  SplitBehavior behavior_;
  bool invert_;
};

class RegexSplit final : public CuttingStep<RegexSplit> {
 public:
  RegexSplit(std::shared_ptr<const Regex> regex, SplitBehavior behavior, bool invert)
      : CuttingStep(behavior, invert), regex_(std::move(regex)) {}

  template <class OnMatch>
  Status matches(std::string_view text, const OnMatch& on_match) const {
    RegexMatcher matcher(*regex_);
    size_t last_end = text.size() + 1;
    for (size_t pos = 0; pos <= text.size();) {
      LOCKSTEP_ASSIGN_OR_RETURN(const RegexMatch match, matcher.find(text, pos));
      if (!match.found) break;
      if (match.begin == match.end && match.end == last_end) {  // an empty match right after a match doesn't count
        pos += pos < text.size() ? utf8_at(text, pos).size : 1;
        last_end = text.size() + 1;
        continue;
      }
      on_match(match.begin, match.end);
      pos = last_end = match.end;
    }
    return {};
  }

 private:
  std::shared_ptr<const Regex> regex_;
};

class WordSplit final : public PreTokenizer {
 public:
  explicit WordSplit(const WordPattern& pattern) : pattern_(pattern) {}
  Status split(Pieces& pieces) const override {
    pieces.spare.clear();
    for (const ByteRange& range : pieces.ranges) scan_words(pattern_, pieces.text, range, pieces.spare);
    pieces.ranges.swap(pieces.spare);
    return {};
  }

 private:
  WordPattern pattern_;
};

class StringSplit final : public CuttingStep<StringSplit> {
 public:
  StringSplit(std::string pattern, SplitBehavior behavior, bool invert)
      : CuttingStep(behavior, invert), pattern_(std::move(pattern)) {}
  template <class OnMatch>
  Status matches(std::string_view text, const OnMatch& on_match) const {
    for (size_t pos = 0; (pos = text.find(pattern_, pos)) != std::string_view::npos; pos += pattern_.size()) {
      on_match(pos, pos + pattern_.size());
    }
    return {};
  }

 private:
  std::string pattern_;
};

// Each character of some categories (and ASCII ones of `also`) is a match.
class CategorySplit final : public CuttingStep<CategorySplit> {
 public:
  CategorySplit(CategorySet set, CategorySet ascii_too, SplitBehavior behavior)
      : CuttingStep(behavior, false), set_(set), ascii_set_(set | ascii_too) {}
  template <class OnMatch>
  Status matches(std::string_view text, const OnMatch& on_match) const {
    const CategoryTable& table = CategoryTable::get();
    for (size_t pos = 0; pos < text.size();) {
      const Utf8Char c = utf8_at(text, pos);
      if (table.in(c.code_point, c.size == 1 ? ascii_set_ : set_)) on_match(pos, pos + c.size);
      pos += c.size;
    }
    return {};
  }

 private:
  CategorySet set_;
  CategorySet ascii_set_;
};

// Base of the steps that rewrite: appends each piece's new text to `out`.
template <class Rewrite>
void rewrite_pieces(Pieces& pieces, const Rewrite& rewrite) {
  std::string out;
  out.reserve(pieces.text.size() + pieces.text.size() / 4);
  bool first = pieces.at_text_start;
  for (ByteRange& range : pieces.ranges) {
    const size_t begin = out.size();
    rewrite(pieces.text.substr(range.begin, range.end - range.begin), first && range.begin == 0, out);
    range = {begin, out.size()};
    first = false;
  }
  pieces.owned = std::move(out);
  pieces.text = pieces.owned;
}

class PrefixSpace final : public PreTokenizer {
 public:
  Status split(Pieces& pieces) const override {
    rewrite_pieces(pieces, [](std::string_view piece, bool, std::string& out) {
      if (!piece.starts_with(' ')) out.push_back(' ');
      out.append(piece);
    });
    return {};
  }
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme prepend, bool split)
      : replacement_(std::move(replacement)),
        prepend_(prepend),
        split_(replacement_, SplitBehavior::kMergedWithNext, false),
        splits_(split) {}

  Status split(Pieces& pieces) const override {
    rewrite_pieces(pieces, [&](std::string_view piece, bool first, std::string& out) {
      const bool has_it = piece.starts_with(' ') || piece.starts_with(replacement_);
      if (!has_it && (prepend_ == PrependScheme::kAlways || (prepend_ == PrependScheme::kFirst && first))) {
        out.append(replacement_);
      }
      for (const char c : piece) {
        if (c == ' ') {
          out.append(replacement_);
        } else {
          out.push_back(c);
        }
      }
    });
    return splits_ ? split_.split(pieces) : Status();
  }

 private:
  std::string replacement_;
  PrependScheme prepend_;
  StringSplit split_;
  bool splits_;
};

}  // namespace

Expected<std::unique_ptr<const PreTokenizer>> make_plain_regex_split(std::string_view regex, SplitBehavior behavior,
                                                                     bool invert) {
  LOCKSTEP_ASSIGN_OR_RETURN(auto compiled, Regex::compile(regex));
  return std::make_unique<RegexSplit>(std::move(compiled), behavior, invert);
}

Expected<std::unique_ptr<const PreTokenizer>> make_regex_split(std::string_view regex, SplitBehavior behavior,
                                                               bool invert) {
  const auto known = known_word_pattern(regex);
  // These patterns match all of the text, so isolating matches and removing what is between them are the same.
  const bool isolates = (behavior == SplitBehavior::kIsolated) || (behavior == SplitBehavior::kRemoved && invert);
  if (known && isolates) return std::make_unique<WordSplit>(*known);
  return make_plain_regex_split(regex, behavior, invert);
}

std::unique_ptr<const PreTokenizer> make_string_split(std::string pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<StringSplit>(std::move(pattern), behavior, invert);
}

std::unique_ptr<const PreTokenizer> make_digits(bool individual) {
  return std::make_unique<CategorySplit>(kNumber, 0,
                                         individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}

std::unique_ptr<const PreTokenizer> make_punctuation(SplitBehavior behavior) {
  return std::make_unique<CategorySplit>(kPunctuation, kSymbol, behavior);  // all ASCII symbols count
}

std::unique_ptr<const PreTokenizer> make_whitespace_split() {
  return std::make_unique<CategorySplit>(kSpace, 0, SplitBehavior::kRemoved);
}

std::unique_ptr<const PreTokenizer> make_prefix_space() { return std::make_unique<PrefixSpace>(); }

std::unique_ptr<const PreTokenizer> make_metaspace(std::string replacement, PrependScheme prepend, bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), prepend, split);
}

}  // namespace lockstep::tokenizer
