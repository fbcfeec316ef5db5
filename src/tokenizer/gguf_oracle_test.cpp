// SPDX-License-Identifier: Apache-2.0
// Every tokenizer kind that a GGUF file can name, against Hugging Face's library and sentencepiece
// (tests/data/tokenizer/make_gguf_cases.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "files/testing.h"
#include "tokenizer/gguf_pre.h"
#include "tokenizer/testing.h"

namespace lockstep::tokenizer {
namespace {

using files::testing::GgufWriter;
using files::testing::TempDir;
using testing::Ids;
using testing::json;

Expected<std::shared_ptr<const Tokenizer>> load(const GgufWriter& writer) {
  const TempDir dir;
  return Tokenizer::load(dir.write("t.gguf", writer.bytes()));
}

void check(const GgufWriter& writer, const json& cases, const std::string& name) {
  const auto tokenizer = load(writer);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().to_string();
  for (const json& item : cases) {
    const auto text = item["text"].get<std::string>();
    EXPECT_EQ((*tokenizer)->encode(text).value(), item["ids"].get<Ids>()) << name << ": " << item["text"].dump();
  }
}

GgufWriter byte_level(const json& vocabulary, const std::string& pre) {
  GgufWriter writer;
  writer.string("general.architecture", "llama").string("tokenizer.ggml.model", "gpt2");
  writer.string("tokenizer.ggml.pre", pre);
  writer.strings("tokenizer.ggml.tokens", vocabulary["tokens"].get<std::vector<std::string>>());
  writer.strings("tokenizer.ggml.merges", vocabulary["merges"].get<std::vector<std::string>>());
  return writer;
}

TEST(GgufOracle, EveryPreType) {
  const std::vector<json> lines = testing::read_lines("tokenizer/gguf_cases.jsonl");
  std::set<std::string> seen;
  for (const json& line : lines) {
    for (const json& name : line.value("names", json::array())) {
      seen.insert(name.get<std::string>());
      check(byte_level(lines.front(), name.get<std::string>()), line["cases"], name.get<std::string>());
    }
  }
  std::string known = known_gguf_pre_types();
  for (size_t end = 0; (end = known.find(", ")) != std::string::npos; known.erase(0, end + 2)) {
    EXPECT_TRUE(seen.contains(known.substr(0, end))) << known.substr(0, end) << " has no oracle";
  }
  EXPECT_TRUE(seen.contains(known)) << known << " has no oracle";
}

TEST(GgufOracle, SentencePiece) {
  int kinds = 0;
  for (const json& line : testing::read_lines("tokenizer/gguf_cases.jsonl")) {
    if (!line.contains("llama")) continue;
    const json& model = line["llama"];
    GgufWriter writer;
    writer.string("general.architecture", "llama").string("tokenizer.ggml.model", "llama");
    writer.strings("tokenizer.ggml.tokens", model["tokens"].get<std::vector<std::string>>());
    writer.array("tokenizer.ggml.scores", 6, model["scores"].get<std::vector<float>>());
    writer.array("tokenizer.ggml.token_type", 5, model["types"].get<std::vector<int32_t>>());
    writer.u32("tokenizer.ggml.unknown_token_id", 0).u32("tokenizer.ggml.bos_token_id", 1);
    writer.boolean("tokenizer.ggml.add_space_prefix", line["add_space_prefix"].get<bool>());
    check(writer, line["cases"], "llama");
    ++kinds;
  }
  EXPECT_EQ(kinds, 2);
}

TEST(GgufOracle, UnknownKindsAreRefusedByName) {
  const json vocabulary = testing::read_lines("tokenizer/gguf_cases.jsonl").front();
  const auto pre = load(byte_level(vocabulary, "hunyuan"));
  ASSERT_FALSE(pre.has_value());
  EXPECT_EQ(pre.error().code(), StatusCode::kUnsupported);
  EXPECT_THAT(pre.error().message(), ::testing::HasSubstr("tokenizer.ggml.pre is \"hunyuan\", supported are default"));
  for (const char* model : {"bert", "t5", "rwkv", "plamo2"}) {
    GgufWriter writer;
    writer.string("general.architecture", "llama").string("tokenizer.ggml.model", model);
    writer.strings("tokenizer.ggml.tokens", {"a"});
    const auto refused = load(writer);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), StatusCode::kUnsupported);
    EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("supported are gpt2 and llama"));
  }
}

// Case 5's kind: nothing puts a BOS before a text but the tokenizer's own word, whatever the ids are called.
TEST(GgufOracle, BosOnlyWhereTheFileSaysSo) {
  const json vocabulary = testing::read_lines("tokenizer/gguf_cases.jsonl").front();
  const EncodeOptions special = {.add_special_tokens = true};
  const auto ids = [&](const GgufWriter& writer) { return load(writer).value()->encode("a", special).value(); };
  const Ids plain = load(byte_level(vocabulary, "gpt-2")).value()->encode("a").value();
  ASSERT_EQ(plain.size(), 1u);
  const Ids with_bos = {11, plain[0]};
  EXPECT_EQ(ids(byte_level(vocabulary, "gpt-2")), plain);  // no key: no token 11 out of nowhere
  EXPECT_EQ(ids(byte_level(vocabulary, "llama-bpe")), plain);
  EXPECT_EQ(ids(byte_level(vocabulary, "gpt-2").u32("tokenizer.ggml.bos_token_id", 11)), plain);
  EXPECT_EQ(ids(byte_level(vocabulary, "llama-bpe").u32("tokenizer.ggml.bos_token_id", 11)), with_bos);
  EXPECT_EQ(ids(byte_level(vocabulary, "gpt-2")
                    .u32("tokenizer.ggml.bos_token_id", 11)
                    .boolean("tokenizer.ggml.add_bos_token", true)),
            with_bos);
  EXPECT_EQ(ids(byte_level(vocabulary, "llama-bpe")
                    .u32("tokenizer.ggml.bos_token_id", 11)
                    .boolean("tokenizer.ggml.add_bos_token", false)),
            plain);
}

// Case 5, second half: a special token of a GGUF file is one token, not its characters.
TEST(GgufOracle, SpecialTokensStayWhole) {
  json vocabulary = testing::read_lines("tokenizer/gguf_cases.jsonl").front();
  const auto control = static_cast<int32_t>(vocabulary["tokens"].size());
  vocabulary["tokens"].push_back("<|im_start|>");
  vocabulary["tokens"].push_back("<tool>");
  std::vector<int32_t> types(vocabulary["tokens"].size(), 1);
  types[types.size() - 2] = 3;
  types[types.size() - 1] = 4;
  const auto tokenizer = load(byte_level(vocabulary, "gpt-2").array("tokenizer.ggml.token_type", 5, types)).value();
  EXPECT_EQ(tokenizer->encode("<|im_start|><tool>").value(), (Ids{control, control + 1}));
  EXPECT_TRUE(tokenizer->is_special(control));
  EXPECT_FALSE(tokenizer->is_special(control + 1));
  EXPECT_EQ(tokenizer->decode(Ids{control, control + 1}, /*skip_special_tokens=*/true), "<tool>");
}

}  // namespace
}  // namespace lockstep::tokenizer
