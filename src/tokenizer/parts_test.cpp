// SPDX-License-Identifier: Apache-2.0
// The parts on their own: hand-written scanner against regex, merging against the definition, NFC, tables, UTF-8.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/regex.h"
#include "tokenizer/scored_pieces.h"
#include "tokenizer/testing.h"
#include "tokenizer/unicode.h"

namespace lockstep::tokenizer {
namespace {

using testing::Ids;

std::vector<ByteRange> split(const PreTokenizer& step, const std::string& text) {
  Pieces pieces;
  pieces.reset(text, true);
  EXPECT_TRUE(step.split(pieces).ok());
  return pieces.ranges;
}

TEST(Scanner, EqualsTheRegex) {
  const char* regexes[] = {
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
      R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
  std::mt19937 random(7);
  for (const char* regex : regexes) {
    ASSERT_TRUE(known_word_pattern(regex).has_value());
    const auto fast = make_regex_split(regex, SplitBehavior::kIsolated, false).value();
    const auto slow = make_plain_regex_split(regex, SplitBehavior::kIsolated, false).value();
    for (int i = 0; i < 3000; ++i) {
      const std::string text = testing::random_text(random, 1 + random() % 12);
      ASSERT_EQ(split(*fast, text), split(*slow, text)) << regex << "\n" << ::testing::PrintToString(text);
    }
  }
  EXPECT_FALSE(known_word_pattern(R"(\p{L}+)").has_value());
}

// Each category's first and last member of each run, and a member in between: the scanner's table and the regex agree.
TEST(Scanner, EveryRangeOfUnicode) {
  const char* regex = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  const auto fast = make_regex_split(regex, SplitBehavior::kIsolated, false).value();
  const auto slow = make_plain_regex_split(regex, SplitBehavior::kIsolated, false).value();
  std::string text;
  for (const CategorySet set : {kLetter, kMark, kNumber, kPunctuation, kSymbol, kSpace, kOther}) {
    for (const CodePointRange& range : ranges_of(set, false)) {
      for (const uint32_t c :
           {uint32_t{range.first}, uint32_t{range.first + (range.last - range.first) / 2}, uint32_t{range.last}}) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        text += "a";
        append_utf8(text, c);
        text += "1";
        append_utf8(text, c);
        text += "  ";
        append_utf8(text, c);
      }
    }
  }
  EXPECT_EQ(split(*fast, text), split(*slow, text));
}

TEST(Unicode, CategoriesOfNewCharacters) {
  const CategoryTable& table = CategoryTable::get();
  EXPECT_TRUE(table.in(0x31350, kLetter));  // Unicode 15
  EXPECT_TRUE(table.in(0x105C0, kLetter));  // 16
  EXPECT_TRUE(table.in(0x85, kSpace));
  EXPECT_FALSE(table.in(0x180E, kSpace));
  EXPECT_FALSE(table.in(0x1C, kSpace));
  EXPECT_EQ(table.at(0x110000), kCCn);
  EXPECT_EQ(table.at(0xFFFFFFFF), kCCn);
}

// The definition: look at all pairs, merge the leftmost of the lowest rank, again.
Ids merge_by_definition(Ids symbols, const MergeTable& merges) {
  for (;;) {
    size_t best = symbols.size();
    uint32_t rank = MergeTable::kNoRank;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto merge = merges.find(symbols[i], symbols[i + 1]);
      if (merge.rank < rank) {
        rank = merge.rank;
        best = i;
      }
    }
    if (best == symbols.size()) return symbols;
    symbols[best] = merges.find(symbols[best], symbols[best + 1]).id;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Bpe, ShortAndLongPiecesFollowTheDefinition) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    BpeConfig config;
    config.byte_level = true;
    config.byte_ids.fill(-1);
    for (int i = 0; i < 3; ++i) config.byte_ids[static_cast<size_t>('a' + i)] = i;
    MergeTable copy;
    copy.reserve(200);
    config.merges.reserve(200);
    for (int32_t id = 3; id < 30; ++id) {
      for (int k = 0; k < 3; ++k) {  // several pairs may become one token, and ranks may be shared
        const auto left = static_cast<int32_t>(random() % static_cast<uint32_t>(id));
        const auto right = static_cast<int32_t>(random() % static_cast<uint32_t>(id));
        const auto rank = static_cast<uint32_t>(round % 2 == 0 ? id * 3 + k : static_cast<int>(random() % 8));
        config.merges.put(left, right, rank, id);
        copy.put(left, right, rank, id);
      }
    }
    const BpeModel model(std::move(config));
    const auto scratch = model.make_scratch();
    for (const size_t size : {1u, 2u, 5u, 22u, 23u, 24u, 63u, 64u, 65u, 66u, 130u, 400u}) {
      std::string text;
      Ids symbols;
      for (size_t i = 0; i < size; ++i) {
        symbols.push_back(static_cast<int32_t>(random() % 3));
        text.push_back(static_cast<char>('a' + symbols.back()));
      }
      const Ids expected = merge_by_definition(symbols, copy);
      for (int again = 0; again < 2; ++again) {  // the second time from the cache, for short pieces
        Ids ids;
        model.encode(text, *scratch, ids);
        ASSERT_EQ(ids, expected) << text;
      }
    }
  }
}

TEST(WordCache, KeysAreExact) {
  WordCache cache;
  const std::string longest(WordCache::kMaxBytes, 'x');
  for (const std::string& word : {std::string("a"), std::string("a\0", 2), std::string("\0", 1), longest}) {
    const auto key = WordCache::key_of(word);
    EXPECT_NE(cache.line(key).key, key);
    WordCache::fill(cache.line(key), key, Ids{1, 2});
    EXPECT_EQ(cache.line(key).key, key);
  }
  EXPECT_NE(WordCache::key_of("a"), WordCache::key_of(std::string_view("a\0", 2)));
  const auto key = WordCache::key_of("b");
  WordCache::fill(cache.line(key), key, Ids(WordCache::kMaxIds + 1, 5));  // too many: not kept
  EXPECT_NE(cache.line(key).key, key);
}

TEST(ScoredPieces, HighestScoreMergesFirst) {
  StringTable table;
  MergeTable merges;
  const ScoredPiece pieces[] = {{"a", 0, 0}, {"b", 1, 0}, {"c", 2, 0}, {"ab", 3, -2}, {"bc", 4, -1}, {"abc", 5, -3}};
  ASSERT_TRUE(merges_from_scores(pieces, table, merges).ok());
  EXPECT_LT(merges.find(1, 2).rank, merges.find(0, 1).rank);
  EXPECT_EQ(merges.find(0, 4).id, 5);
  EXPECT_EQ(merges.find(3, 2).id, 5);
  EXPECT_EQ(merges.find(2, 1).rank, MergeTable::kNoRank);
  EXPECT_EQ(byte_token_value("<0xE9>"), 0xE9);
  EXPECT_EQ(byte_token_value("<0xe9>"), -1);
  StringTable other;
  MergeTable none;
  EXPECT_FALSE(merges_from_scores(std::vector<ScoredPiece>{{"a", 0, NAN}}, other, none).ok());
}

TEST(Normalizer, LiteralRangesMoveWithTheText) {
  NormalizedText text{"xe\u0301y A\u030a", {{0, 1}, {4, 5}}};  // x | e+acute | y | blank | A+ring
  ASSERT_TRUE(make_unicode_normalizer(NormalForm::kNfc)->apply(text).ok());
  EXPECT_EQ(text.text, "x\u00e9y \u00c5");
  EXPECT_EQ(text.literal, (std::vector<ByteRange>{{0, 1}, {3, 4}}));
  text = {"ab", {{1, 2}}};
  ASSERT_TRUE(make_prepend("__")->apply(text).ok());
  EXPECT_EQ(text.literal, (std::vector<ByteRange>{{3, 4}}));
  text = {"a--b--c", {{0, 2}, {2, 3}, {6, 7}}};  // both halves of the first --: all of its replacement is literal
  ASSERT_TRUE(make_replace("--", "+")->apply(text).ok());
  EXPECT_EQ(text.text, "a+b+c");
  EXPECT_EQ(text.literal, (std::vector<ByteRange>{{0, 2}, {4, 5}}));
  text = {"  ab ", {{0, 2}, {3, 5}}};
  ASSERT_TRUE(make_strip(true, true)->apply(text).ok());
  EXPECT_EQ(text.text, "ab");
  EXPECT_EQ(text.literal, (std::vector<ByteRange>{{1, 2}}));
}

TEST(Normalizer, LeavesMeansUnchanged) {
  std::mt19937 random(3);
  for (const NormalForm form : {NormalForm::kNfc, NormalForm::kNfd, NormalForm::kNfkc, NormalForm::kNfkd}) {
    const auto step = make_unicode_normalizer(form);
    for (int i = 0; i < 500; ++i) {
      NormalizedText text{testing::random_text(random, 8), {}};
      const std::string before = text.text;
      const bool left = step->leaves(before);
      ASSERT_TRUE(step->apply(text).ok());
      EXPECT_TRUE(!left || text.text == before);
      const std::string once = text.text;
      ASSERT_TRUE(step->apply(text).ok());
      EXPECT_EQ(text.text, once);
    }
  }
}

TEST(Regex, RefusesWhatItWouldMisread) {
  for (const char* bad :
       {"[a&&b]", "[[a]b]", "\\h", "\\p{Lu", "\\pL", "(", "[z-a]", "a\\", "\\p{NoSuchScript}", "\\C", "\\u12"}) {
    const auto regex = Regex::compile(bad);
    ASSERT_FALSE(regex.has_value()) << bad;
    EXPECT_FALSE(regex.error().message().empty());
  }
  EXPECT_FALSE(Regex::compile("\xff").has_value());
  EXPECT_FALSE(Regex::compile(std::string(100000, 'a')).has_value());
}

TEST(Regex, CatastrophesEndInAnError) {
  const auto step = make_plain_regex_split("(?:a?){40}a{40}b|(a+)+$", SplitBehavior::kIsolated, false).value();
  Pieces pieces;
  const std::string text = std::string(60, 'a') + "c";
  pieces.reset(text, true);
  const Status status = step->split(pieces);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.to_string();
}

TEST(AddedTokens, LeftmostLongest) {
  const AddedTokenMatcher matcher({{"<a>", 1}, {"<a>b", 2}, {"b<", 3}, {"", 4}});
  std::vector<Segment> segments;
  matcher.split("<a>b<a>x<a", {}, segments);
  ASSERT_EQ(segments.size(), 3u);
  EXPECT_EQ(segments[0].id, 2);
  EXPECT_EQ(segments[1].id, 1);
  EXPECT_EQ(segments[2].id, -1);
  EXPECT_EQ(segments[2].range, (ByteRange{7, 10}));
  segments.clear();
  matcher.split("", {}, segments);
  AddedTokenMatcher().split("", {}, segments);
  EXPECT_TRUE(segments.empty());
}

TEST(Utf8, ReplacesAsPythonDoes) {
  const auto replaced = [](std::string_view bytes) {
    std::string out;
    append_replacing_invalid(out, bytes, false);
    return out;
  };
  EXPECT_EQ(replaced("\xF0\x9F\x98"), "\ufffd");
  EXPECT_EQ(replaced("\xF0\x9F"
                     "a\x80"),
            "\ufffda\ufffd");
  EXPECT_EQ(replaced("\xE0\x80\x80"), "\ufffd\ufffd\ufffd");  // overlong
  EXPECT_EQ(replaced("\xED\xA0\x80"), "\ufffd\ufffd\ufffd");  // a surrogate
  EXPECT_EQ(replaced("\xF4\x90\x80\x80"), "\ufffd\ufffd\ufffd\ufffd");
  EXPECT_EQ(replaced("\xF5"), "\ufffd");
  std::string out;
  EXPECT_EQ(append_replacing_invalid(out, "ab\xE2\x82", true), 2u);
  EXPECT_EQ(out, "ab");
}

TEST(ByteLevel, AlphabetIsOneToOne) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    std::string spelling;
    append_utf8(spelling, byte_level_char(static_cast<unsigned char>(byte)));
    EXPECT_EQ(byte_level_bytes(spelling), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(byte_level_bytes("a b"), std::nullopt);  // a blank is written as U+0120
  EXPECT_EQ(byte_level_bytes("中"), std::nullopt);
}

TEST(Tokenizer, ManyThreadsAtOnce) {
  const auto tokenizer = testing::qwen3();
  std::mt19937 random(5);
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (int i = 0; i < 40; ++i) {
    texts.push_back(testing::random_text(random, 40));
    expected.push_back(tokenizer->encode(texts.back()).value());
  }
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        for (size_t i = 0; i < texts.size(); ++i) wrong += tokenizer->encode(texts[i]).value() != expected[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace lockstep::tokenizer
