// SPDX-License-Identifier: Apache-2.0
// Finds stop strings in a text that arrives in pieces, and holds back only what may begin one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::text {

/// The result does not depend on how the text is cut into pieces: the match is the one that ends first in the text, and
/// of those that end at one place the longest. One Knuth-Morris-Pratt automaton a stop string, so a piece costs its
/// bytes times the number of strings, whatever the strings are. Pieces and stop strings are UTF-8, whole characters; so
/// is every text that comes out. Not thread-safe.
class StopMatcher final {
 public:
  /// `stops`: none is empty. `keep_match`: the text that comes out ends with the stop string instead of before it.
  StopMatcher(std::vector<std::string> stops, bool keep_match);

  struct Result {
    std::string text;               ///< what may be delivered now
    std::optional<size_t> matched;  ///< index of the stop string; the matcher takes no more text afterwards
  };

  /// Takes the next piece of the text.
  Result feed(std::string_view piece);
  /// Takes text that is delivered unsearched; a match can't reach into it. Gives it back behind what was held.
  std::string pass(std::string_view piece);
  /// The held-back text, when the text has ended without a match.
  std::string finish();

 private:
  struct Automaton {
    std::string pattern;
    std::vector<size_t> fallback;  // KMP failure function: longest proper border of pattern[0..i]
    size_t state = 0;              // bytes of the pattern that the text so far ends with

    explicit Automaton(std::string text);
    bool advance(char c);
  };

  std::vector<Automaton> automata_;
  bool keep_match_;
  std::string held_;
};

}  // namespace lockstep::text
