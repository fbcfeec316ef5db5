// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.h"

#include <random>

#include "gtest/gtest.h"

namespace lockstep::text {
namespace {

struct Outcome {
  std::string text;
  std::optional<size_t> matched;
  bool operator==(const Outcome&) const = default;
};

/// Feeds `text` in pieces of `step` bytes.
Outcome run(const std::vector<std::string>& stops, const std::string& text, size_t step, bool keep_match = false) {
  StopMatcher matcher(stops, keep_match);
  Outcome outcome;
  for (size_t at = 0; at < text.size(); at += step) {
    StopMatcher::Result result = matcher.feed(std::string_view(text).substr(at, step));
    outcome.text += result.text;
    if (result.matched) {
      outcome.matched = result.matched;
      return outcome;
    }
  }
  outcome.text += matcher.finish();
  return outcome;
}

TEST(StopMatcher, HoldsBackOnlyWhatMayBeginAStop) {
  StopMatcher matcher({"bab"}, false);
  EXPECT_EQ(matcher.feed("ab").text, "a");
  const StopMatcher::Result result = matcher.feed("ab");
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.matched, 0u);
}

TEST(StopMatcher, DeliversHeldTextWhenTheTextEnds) {
  StopMatcher matcher({"abc"}, false);
  EXPECT_EQ(matcher.feed("xab").text, "x");
  EXPECT_EQ(matcher.finish(), "ab");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, FindsAStopInsideAPiece) {
  EXPECT_EQ(run({"E"}, "DEF", 3), (Outcome{"D", 0}));
  EXPECT_EQ(run({"E"}, "DEF", 3, true), (Outcome{"DE", 0}));
}

TEST(StopMatcher, TheMatchThatEndsFirstWinsAndThenTheLongest) {
  for (size_t step = 1; step < 8; ++step) {
    EXPECT_EQ(run({"abcd", "bc"}, "xabcd", step), (Outcome{"xa", 1})) << step;
    EXPECT_EQ(run({"c", "abc"}, "xabcd", step), (Outcome{"x", 1})) << step;
  }
}

TEST(StopMatcher, RestartsInsideAPartialMatch) {
  for (size_t step = 1; step < 12; ++step) {
    EXPECT_EQ(run({"aab"}, "aaaab!", step), (Outcome{"aa", 0})) << step;
    EXPECT_EQ(run({"abab!"}, "abababab", step), (Outcome{"abababab", std::nullopt})) << step;
  }
}

TEST(StopMatcher, ALongStopCostsNoMoreThanAShortOne) {
  const std::string stop(100000, 'a');
  StopMatcher matcher({stop + "b"}, false);
  std::string text;
  for (int i = 0; i < 300000; ++i) text += matcher.feed("a").text;
  EXPECT_EQ(text.size(), 200000u);
  EXPECT_EQ(matcher.finish().size(), 100000u);
}

TEST(StopMatcher, PassedTextIsNotSearched) {
  StopMatcher matcher({"ab"}, false);
  EXPECT_EQ(matcher.pass("aba"), "aba");
  EXPECT_EQ(matcher.feed("b").matched, std::nullopt);
  EXPECT_EQ(matcher.feed("ab").matched, 0u);
}

TEST(StopMatcher, AnyCutGivesWhatASearchOfTheWholeTextGives) {
  std::mt19937 random(7);
  const auto word = [&](size_t length) {
    std::string out;
    for (size_t i = 0; i < length; ++i) out += static_cast<char>('a' + random() % 2);
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (size_t i = 0; i <= random() % 3; ++i) stops.push_back(word(1 + random() % 6));
    const std::string text = word(random() % 24);
    Outcome expected{text, std::nullopt};
    for (size_t end = 1; end <= text.size() && !expected.matched; ++end) {
      for (size_t s = 0; s < stops.size(); ++s) {
        const bool longer = !expected.matched || stops[s].size() > stops[*expected.matched].size();
        if (longer && std::string_view(text).substr(0, end).ends_with(stops[s]))
          expected = {text.substr(0, end - stops[s].size()), s};
      }
    }
    for (size_t step : {1u, 2u, 3u, 5u, 40u}) ASSERT_EQ(run(stops, text, step), expected) << text << " " << step;
  }
}

}  // namespace
}  // namespace lockstep::text
