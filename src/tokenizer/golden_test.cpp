// SPDX-License-Identifier: Apache-2.0
// Every case of tests/data/golden/tokenizer, encoded, decoded, and streamed.
#include <gtest/gtest.h>

#include "tokenizer/detokenizer.h"
#include "tokenizer/testing.h"

namespace lockstep::tokenizer {
namespace {

using testing::Ids;
using testing::json;
using testing::qwen3;
using testing::smollm2;

void check_encode(const Tokenizer& tokenizer, const json& item) {
  const auto text = item["text"].get<std::string>();
  const auto ids = item["ids"].get<Ids>();
  EXPECT_EQ(tokenizer.encode(text).value(), ids) << item.dump();
  EXPECT_EQ(tokenizer.encode(text, {.parse_special = false}).value(), item.value("ids_plain", ids)) << item.dump();
  EXPECT_EQ(tokenizer.encode_with_literal_ranges(text, {}).value(), ids) << item.dump();
}

void check_decode(const std::shared_ptr<const Tokenizer>& tokenizer, const json& item) {
  const auto ids = item["ids"].get<Ids>();
  for (const bool skip : {false, true}) {
    const auto expected = item[skip ? "text_skip_special" : "text"].get<std::string>();
    EXPECT_EQ(tokenizer->decode(ids, skip), expected) << item.dump();
    Detokenizer stream(tokenizer, skip);
    std::string joined;
    for (const int32_t id : ids) joined += stream.append(id);
    EXPECT_EQ(joined + stream.finish(), expected) << item.dump();
  }
}

void check_file(const std::shared_ptr<const Tokenizer>& tokenizer, const std::string& name, size_t encodes,
                size_t decodes) {
  size_t encoded = 0;
  size_t decoded = 0;
  for (const json& item : testing::read_lines("golden/" + name)) {
    if (item["kind"] == "encode") {
      check_encode(*tokenizer, item);
      ++encoded;
    } else {
      check_decode(tokenizer, item);
      ++decoded;
    }
  }
  EXPECT_EQ(encoded, encodes);
  EXPECT_EQ(decoded, decodes);
}

TEST(Golden, Qwen3) { check_file(qwen3(), "tokenizer/qwen3_cases.jsonl", 400, 120); }
TEST(Golden, Qwen3NewUnicode) { check_file(qwen3(), "tokenizer/qwen3_unicode_cases.jsonl", 14, 0); }
TEST(Golden, SmolLm2) { check_file(smollm2(), "tokenizer/smollm2_cases.jsonl", 200, 60); }

void check_chats(const Tokenizer& tokenizer, const std::string& name, size_t least) {
  size_t seen = 0;
  for (const json& item : testing::read_lines("golden/" + name)) {
    if (!item.contains("ids")) continue;
    EXPECT_EQ(tokenizer.encode(item["text"].get<std::string>()).value(), item["ids"].get<Ids>()) << item.dump();
    ++seen;
  }
  EXPECT_GE(seen, least);
}
TEST(Golden, Qwen3Chats) { check_chats(*qwen3(), "chat/qwen3_cases.jsonl", 58); }
TEST(Golden, SmolLm2Chats) { check_chats(*smollm2(), "chat/smollm2_cases.jsonl", 15); }

}  // namespace
}  // namespace lockstep::tokenizer
