// SPDX-License-Identifier: Apache-2.0
// Every case of tests/data/golden/tokenizer, encoded, decoded, and streamed.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tokenizer/detokenizer.h"
#include "tokenizer/tokenizer.h"

namespace lockstep::tokenizer {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

std::shared_ptr<const Tokenizer> load_or_die(const std::string& path) {
  auto tokenizer = Tokenizer::load(path);
  if (!tokenizer) throw std::runtime_error(tokenizer.error().to_string());
  return *tokenizer;
}
std::shared_ptr<const Tokenizer> qwen3() {
  static const auto tokenizer = load_or_die(LOCKSTEP_TESTDATA_DIR "/qwen3-tokenizer");
  return tokenizer;
}
std::shared_ptr<const Tokenizer> smollm2() {
  static const auto tokenizer = load_or_die(LOCKSTEP_SMOLLM2_GGUF);
  return tokenizer;
}

std::vector<json> read_cases(const std::string& name) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/tests/data/golden/" + name);
  std::vector<json> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(json::parse(line));
  return cases;
}

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

void check_file(const std::shared_ptr<const Tokenizer>& tokenizer, const std::string& name, size_t encodes, size_t decodes) {
  size_t encoded = 0;
  size_t decoded = 0;
  for (const json& item : read_cases(name)) {
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
  for (const json& item : read_cases(name)) {
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
