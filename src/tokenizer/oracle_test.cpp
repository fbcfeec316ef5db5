// SPDX-License-Identifier: Apache-2.0
// Small tokenizers of every kind against what Hugging Face's library makes of random strings (tests/data/tokenizer).
#include <gtest/gtest.h>

#include "tokenizer/detokenizer.h"
#include "tokenizer/testing.h"

namespace lockstep::tokenizer {
namespace {

using testing::Ids;
using testing::json;

void check(const std::shared_ptr<const Tokenizer>& tokenizer, const json& item) {
  const auto text = item["text"].get<std::string>();
  const auto ids = item["ids"].get<Ids>();
  EXPECT_EQ(tokenizer->encode(text).value(), ids) << item["text"].dump();
  EXPECT_EQ(tokenizer->encode(text, {.add_special_tokens = true}).value(), item.value("special_ids", ids));
  EXPECT_EQ(tokenizer->decode(ids, true), item["text_back"].get<std::string>()) << item["text"].dump();
  Detokenizer stream(tokenizer, true);
  std::string joined;
  for (const int32_t id : ids) joined += stream.append(id);
  EXPECT_EQ(joined + stream.finish(), item["text_back"].get<std::string>()) << item["text"].dump();
}

TEST(Oracle, TokenizersOfEveryKind) {
  json vocab;
  json merges;
  size_t kinds = 0;
  for (json& line : testing::read_lines("tokenizer/cases.jsonl")) {
    SCOPED_TRACE(line["name"].get<std::string>());
    json& model = line["tokenizer"]["model"];
    if (model["vocab"].is_null()) {  // the same as the line before
      model["vocab"] = vocab;
      model["merges"] = merges;
    }
    vocab = model["vocab"];
    merges = model.value("merges", json());
    const auto tokenizer = Tokenizer::from_json({.name = "tokenizer.json", .tokenizer_json = line["tokenizer"].dump()});
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
    for (const json& item : line["cases"]) check(*tokenizer, item);
    ++kinds;
  }
  EXPECT_EQ(kinds, 49u);
}

}  // namespace
}  // namespace lockstep::tokenizer
