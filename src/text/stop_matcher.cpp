// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lockstep::text {

StopMatcher::Automaton::Automaton(std::string text) : pattern(std::move(text)), fallback(pattern.size(), 0) {
  LOCKSTEP_CHECK(!pattern.empty());
  for (size_t i = 1, border = 0; i < pattern.size(); ++i) {
    while (border > 0 && pattern[i] != pattern[border]) border = fallback[border - 1];
    if (pattern[i] == pattern[border]) ++border;
    fallback[i] = border;
  }
}

bool StopMatcher::Automaton::advance(char c) {
  while (state > 0 && pattern[state] != c) state = fallback[state - 1];
  if (pattern[state] == c) ++state;
  return state == pattern.size();
}

StopMatcher::StopMatcher(std::vector<std::string> stops, bool keep_match) : keep_match_(keep_match) {
  automata_.reserve(stops.size());
  for (std::string& stop : stops) automata_.emplace_back(std::move(stop));
}

StopMatcher::Result StopMatcher::feed(std::string_view piece) {
  Result result;
  for (size_t i = 0; i < piece.size() && !result.matched; ++i) {
    for (size_t a = 0; a < automata_.size(); ++a) {
      const bool longer = !result.matched || automata_[a].pattern.size() > automata_[*result.matched].pattern.size();
      if (automata_[a].advance(piece[i]) && longer) result.matched = a;
    }
    if (result.matched) piece = piece.substr(0, i + 1);
  }
  held_ += piece;
  if (result.matched) {
    const size_t length = automata_[*result.matched].pattern.size();
    result.text = keep_match_ ? held_ : held_.substr(0, held_.size() - length);
    held_.clear();
    return result;
  }
  size_t keep = 0;  // a state of k means that the last k bytes begin a stop string, so the cut is between characters
  for (const Automaton& automaton : automata_) keep = std::max(keep, automaton.state);
  result.text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return result;
}

std::string StopMatcher::pass(std::string_view piece) {
  std::string text = finish();
  text += piece;
  return text;
}

std::string StopMatcher::finish() {
  for (Automaton& automaton : automata_) automaton.state = 0;
  return std::exchange(held_, {});
}

}  // namespace lockstep::text
