// SPDX-License-Identifier: Apache-2.0
// The normalisers of tokenizer.json: what happens to a text before it is split.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/tokenizer.h"

namespace lockstep::tokenizer {

/// A text under normalisation, with the byte ranges of it that are literal; they move along with the text.
struct NormalizedText {
  std::string text;
  std::vector<ByteRange> literal;
};

/// Copies a text with changes, then moves the literal ranges. A range that shares a byte with a replaced stretch takes
/// in all of its replacement, so literal text never becomes control text.
class Rewriter final {
 public:
  explicit Rewriter(NormalizedText& target) : target_(target) {}
  /// Copies up to `position` of the old text.
  void keep_until(size_t position);
  /// Puts `text` in the place of the next `old_size` bytes.
  void replace(size_t old_size, std::string_view text);
  /// Copies the rest and puts the result into the target.
  void finish();

 private:
  struct Edit {
    ByteRange before, after;
  };
  NormalizedText& target_;
  size_t read_ = 0;
  std::string out_;
  std::vector<Edit> edits_;
};

/// One step. Immutable, thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// `target.text` is valid UTF-8 and stays so.
  virtual Status apply(NormalizedText& target) const = 0;
  /// True if the text would not change; may say false for a text that wouldn't. A cheap way past apply().
  virtual bool leaves(std::string_view text) const = 0;
};

using NormalizerList = std::vector<std::unique_ptr<const Normalizer>>;

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
std::unique_ptr<const Normalizer> make_unicode_normalizer(NormalForm form);
/// Puts `text` in front, of an empty text not.
std::unique_ptr<const Normalizer> make_prepend(std::string text);
/// Every occurrence of `pattern` (not empty), left to right.
std::unique_ptr<const Normalizer> make_replace(std::string pattern, std::string content);
Expected<std::unique_ptr<const Normalizer>> make_regex_replace(std::string_view regex, std::string content);
/// White space off the ends.
std::unique_ptr<const Normalizer> make_strip(bool left, bool right);

}  // namespace lockstep::tokenizer
