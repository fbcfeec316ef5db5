// SPDX-License-Identifier: Apache-2.0
// The pre-tokenisers of tokenizer.json: a text is cut into the pieces that the model then encodes one by one.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/scanner.h"
#include "tokenizer/tokenizer.h"

namespace lockstep::tokenizer {

/// A text and its pieces so far: not empty, ascending, without overlaps; a step may drop text between them.
struct Pieces {
  std::string_view text;  ///< valid UTF-8
  std::vector<ByteRange> ranges;
  bool at_text_start = true;     ///< the first piece begins the whole input
  std::string owned;             ///< what `text` shows once a step has rewritten it
  std::vector<ByteRange> spare;  ///< memory to be used again

  void reset(std::string_view whole, bool starts_text);
};

/// One step. Immutable, thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual Status split(Pieces& pieces) const = 0;
};

using PreTokenizerList = std::vector<std::unique_ptr<const PreTokenizer>>;

/// What becomes of the matches of a Split.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// `regex` may be one of the patterns that scanner.h knows; it is then matched by hand-written code. `invert`: what
/// doesn't match counts as match.
Expected<std::unique_ptr<const PreTokenizer>> make_regex_split(std::string_view regex, SplitBehavior behavior,
                                                               bool invert);
/// As above, never by hand-written code: the reference in tests.
Expected<std::unique_ptr<const PreTokenizer>> make_plain_regex_split(std::string_view regex, SplitBehavior behavior,
                                                                     bool invert);
/// `pattern` is not empty.
std::unique_ptr<const PreTokenizer> make_string_split(std::string pattern, SplitBehavior behavior, bool invert);
std::unique_ptr<const PreTokenizer> make_digits(bool individual);
std::unique_ptr<const PreTokenizer> make_punctuation(SplitBehavior behavior);
std::unique_ptr<const PreTokenizer> make_whitespace_split();
/// A blank in front of each piece that doesn't begin with one.
std::unique_ptr<const PreTokenizer> make_prefix_space();

enum class PrependScheme { kAlways, kFirst, kNever };
/// SentencePiece's blanks: ' ' becomes `replacement`, and one is put in front.
std::unique_ptr<const PreTokenizer> make_metaspace(std::string replacement, PrependScheme prepend, bool split);

}  // namespace lockstep::tokenizer
