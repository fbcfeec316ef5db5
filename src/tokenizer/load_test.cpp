// SPDX-License-Identifier: Apache-2.0
// Damaged and unusual tokenizer files: each gives one error that names file, field and what was found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "files/testing.h"
#include "tokenizer/testing.h"

namespace lockstep::tokenizer {
namespace {

using ::testing::HasSubstr;
using testing::Ids;
using testing::json;

// {a, b, c, ab, abc, blank} over the byte alphabet, with one special token.
json small_tokenizer() {
  return json::parse(R"({
    "added_tokens": [{"id": 6, "content": "<s>", "special": true}],
    "normalizer": {"type": "NFC"},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "[a-z]+"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [6], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "Ġ": 5}, "merges": ["a b", ["ab", "c"]]}})");
}

Expected<std::shared_ptr<const Tokenizer>> from(const json& tokenizer, const std::string& config = "") {
  return Tokenizer::from_json(
      {.name = "dir/tokenizer.json", .tokenizer_json = tokenizer.dump(), .tokenizer_config_json = config});
}

TEST(LoadJson, SmallTokenizer) {
  const auto tokenizer = from(small_tokenizer()).value();
  EXPECT_EQ(tokenizer->encode("abc ab<s>c").value(), (Ids{4, 5, 3, 6, 2}));
  EXPECT_EQ(tokenizer->encode("abc", {.add_special_tokens = true}).value(), (Ids{6, 4}));
  EXPECT_EQ(tokenizer->encode("xyz").value(), Ids{});  // bytes without a token are dropped, as in the library
  EXPECT_EQ(tokenizer->vocab_size(), 7);
}

struct Fault {
  const char* pointer;   // where in the small tokenizer
  const char* value;     // what is put there; "" = removed
  const char* expected;  // in the message
};

class LoadJsonFaults : public ::testing::TestWithParam<Fault> {};

TEST_P(LoadJsonFaults, AreNamed) {
  json damaged = small_tokenizer();
  const json::json_pointer place(GetParam().pointer);
  if (*GetParam().value == '\0') {
    damaged[place.parent_pointer()].erase(place.back());
  } else {
    damaged[place] = json::parse(GetParam().value);
  }
  const auto tokenizer = from(damaged);
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_THAT(tokenizer.error().message(), HasSubstr("dir/tokenizer.json: "));
  EXPECT_THAT(tokenizer.error().message(), HasSubstr(GetParam().expected));
}

INSTANTIATE_TEST_SUITE_P(
    All, LoadJsonFaults,
    ::testing::Values(
        Fault{"/model", "", "model is missing or null, expected an object"}, Fault{"/model", "[]", "model is an array"},
        Fault{"/model/type", "\"WordPiece\"", "model.type is \"WordPiece\""},
        Fault{"/model/type", "3", "model.type is 3"}, Fault{"/model/vocab", "", "model.vocab is missing"},
        Fault{"/model/vocab", "{}", "model.vocab"}, Fault{"/model/vocab/ab", "\"3\"", "model.vocab"},
        Fault{"/model/vocab/ab", "-1", "has id -1"}, Fault{"/model/vocab/ab", "99999999999", "has id 99999999999"},
        Fault{"/model/vocab/ab", "18446744073709551615", "model.vocab"},
        Fault{"/model/vocab/ab", "4194304", "has id 4194304"}, Fault{"/model/vocab/ab", "2", "both have id 2"},
        Fault{"/model/vocab/ab", "", "model.merges[0]: \"ab\" is not in the vocabulary"},
        Fault{"/model/merges", "", "model.merges is missing"},
        Fault{"/model/merges", "{\"a\": 1}", "model.merges is an object"},
        Fault{"/model/merges/1", "\"ab\"", "model.merges[1] is \"ab\", expected two tokens"},
        Fault{"/model/merges/1", "\"a b c\"", "model.merges[1]"},
        Fault{"/model/merges/1", "[\"a\", 2]", "model.merges[1]"},
        Fault{"/model/merges/1", "[\"a\", \"x\"]", "model.merges[1]: \"x\" is not in the vocabulary"},
        Fault{"/model/dropout", "0.1", "model.dropout is 0.1"},
        Fault{"/model/end_of_word_suffix", "\"</w>\"", "model.end_of_word_suffix is \"</w>\""},
        Fault{"/model/unk_token", "\"<unk>\"", "model.unk_token is \"<unk>\""},
        Fault{"/model/byte_fallback", "1", "model.byte_fallback is 1, expected true or false"},
        Fault{"/normalizer/type", "\"Nmt\"", "normalizer.type is \"Nmt\""},
        Fault{"/normalizer", "7", "normalizer is 7"},
        Fault{"/pre_tokenizer/pretokenizers/0/type", "\"UnicodeScripts\"",
              "pre_tokenizer.pretokenizers[0].type is \"UnicodeScripts\""},
        Fault{"/pre_tokenizer/pretokenizers/0/pattern/Regex", "\"[\"", "pre_tokenizer.pretokenizers[0].pattern"},
        Fault{"/pre_tokenizer/pretokenizers/0/pattern", "{}",
              "pre_tokenizer.pretokenizers[0].pattern.String is missing"},
        Fault{"/pre_tokenizer/pretokenizers/0/behavior", "\"Sometimes\"", "pre_tokenizer.pretokenizers[0].behavior"},
        Fault{"/pre_tokenizer/pretokenizers", "[{\"type\":\"ByteLevel\"},{\"type\":\"Digits\"}]", "after ByteLevel"},
        Fault{"/pre_tokenizer/pretokenizers", "3", "pre_tokenizer.pretokenizers is 3"},
        Fault{"/decoder", "", "decoder is missing"}, Fault{"/decoder/type", "\"CTC\"", "decoder.type is \"CTC\""},
        Fault{"/decoder/type", "\"Fuse\"", "ByteLevel must be in pre_tokenizer and decoder"},
        Fault{"/post_processor/single", "[]", "post_processor.single"},
        Fault{"/post_processor/special_tokens", "{}", "post_processor.special_tokens.<s>.ids is missing"},
        Fault{"/post_processor/special_tokens/<s>/ids", "[-6]", "ids[0] is -6"},
        Fault{"/post_processor/type", "\"Odd\"", "post_processor.type is \"Odd\""},
        Fault{"/added_tokens", "{\"a\":1}", "added_tokens is an object"},
        Fault{"/added_tokens/0/id", "1e300", "added_tokens[0].id"},
        Fault{"/added_tokens/0/id", "1000000000", "added_tokens[0].id is 1000000000"},
        Fault{"/added_tokens/0/id", "3", "in the vocabulary that is \"ab\""},
        Fault{"/added_tokens/0/content", "\"abc\"", "in the vocabulary it is 4"},
        Fault{"/added_tokens/0/content", "", "added_tokens[0].content is missing"},
        Fault{"/added_tokens/0/lstrip", "\"no\"", "added_tokens[0].lstrip is \"no\""},
        Fault{"/added_tokens/1", "{\"id\": 6, \"content\": \"<t>\"}", "both have id 6"},
        Fault{"/added_tokens/1", "{\"id\": 7, \"content\": \"<s>\"}", "is there twice"}));

TEST(LoadJson, NotJson) {
  for (const char* text : {"", "{", "[1", "nul", "\xff\xfe", "[]", "3", "{\"model\":"}) {
    const auto tokenizer = Tokenizer::from_json({.name = "dir/tokenizer.json", .tokenizer_json = text});
    ASSERT_FALSE(tokenizer.has_value()) << text;
    EXPECT_THAT(tokenizer.error().message(), HasSubstr("dir/tokenizer.json"));
  }
  EXPECT_FALSE(Tokenizer::from_json({.name = "x", .tokenizer_json = std::string(200000, '[')}).has_value());
  std::string deep = R"({"type":"NFC"})";
  for (int i = 0; i < 200; ++i) deep = R"({"type":"Sequence","normalizers":[)" + deep + "]}";
  json nested = small_tokenizer();
  nested["normalizer"] = json::parse(deep);
  EXPECT_THAT(from(nested).error().message(), HasSubstr("nested too deep"));
}

TEST(LoadJson, ConfigFaults) {
  EXPECT_THAT(from(small_tokenizer(), "{").error().message(), HasSubstr("dir/tokenizer_config.json"));
  EXPECT_THAT(from(small_tokenizer(), R"({"eos_token": 3})").error().message(),
              HasSubstr("tokenizer_config.json: eos_token is 3"));
  EXPECT_THAT(from(small_tokenizer(), R"({"chat_template": 3})").error().message(), HasSubstr("chat_template is 3"));
  EXPECT_THAT(from(small_tokenizer(), R"({"chat_template": [{"name": "x"}]})").error().message(),
              HasSubstr("chat_template[0].template"));
}

TEST(LoadJson, ConfigAndTemplates) {
  const auto tokenizer =
      from(small_tokenizer(), R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>", "unk_token": null,
      "chat_template": [{"name": "default", "template": "D"}, {"name": "rag", "template": "R"}]})")
          .value();
  EXPECT_EQ(tokenizer->bos_id(), 6);
  EXPECT_EQ(tokenizer->eos_id(), std::nullopt);  // named, but no such token
  EXPECT_EQ(tokenizer->special_tokens(),
            (std::map<std::string, std::string>{{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
  EXPECT_EQ(tokenizer->chat_template(), "D");
  EXPECT_EQ(tokenizer->chat_template("rag"), "R");
  const auto overruled = Tokenizer::from_json({.name = "t",
                                               .tokenizer_json = small_tokenizer().dump(),
                                               .tokenizer_config_json = R"({"chat_template": "old"})",
                                               .chat_template_jinja = "new"})
                             .value();
  EXPECT_EQ(overruled->chat_template(), "new");
}

TEST(Load, Directories) {
  const files::testing::TempDir dir;
  EXPECT_EQ(Tokenizer::load(dir.path()).error().code(), StatusCode::kNotFound);
  EXPECT_THAT(Tokenizer::load(dir.path() / "none").error().message(), HasSubstr("none"));
  dir.write("tokenizer.json", small_tokenizer().dump());
  dir.write("special_tokens_map.json", R"({"eos_token": "<s>"})");
  dir.write("chat_template.jinja", "T");
  for (const auto& path : {dir.path(), dir.path() / "tokenizer.json"}) {
    const auto tokenizer = Tokenizer::load(path).value();
    EXPECT_EQ(tokenizer->eos_id(), 6);
    EXPECT_EQ(tokenizer->chat_template(), "T");
  }
  dir.write("special_tokens_map.json", "{");
  EXPECT_THAT(Tokenizer::load(dir.path()).error().message(), HasSubstr("special_tokens_map.json"));
}

// GGUF files

using files::testing::GgufWriter;
constexpr uint32_t kInt32 = 5;
constexpr uint32_t kFloat32 = 6;

class GgufTokenizer : public ::testing::Test {
 protected:
  // a, b, c, ab, abc, blank, a control token, a user-defined one
  std::vector<std::string> tokens_ = {"a", "b", "c", "ab", "abc", "Ġ", "<s>", "<t ool>"};
  std::vector<int32_t> types_ = {1, 1, 1, 1, 1, 1, 3, 4};
  std::vector<std::string> merges_ = {"a b", "ab c"};
  std::string model_ = "gpt2";
  std::string pre_ = "gpt-2";
  std::vector<float> scores_;

  Expected<std::shared_ptr<const Tokenizer>> load(const std::function<void(GgufWriter&)>& more = [](GgufWriter&) {}) {
    GgufWriter writer;
    writer.string("general.architecture", "llama");
    if (!model_.empty()) writer.string("tokenizer.ggml.model", model_);
    if (!pre_.empty()) writer.string("tokenizer.ggml.pre", pre_);
    if (!tokens_.empty()) writer.strings("tokenizer.ggml.tokens", tokens_);
    if (!types_.empty()) writer.array("tokenizer.ggml.token_type", kInt32, types_);
    if (!merges_.empty()) writer.strings("tokenizer.ggml.merges", merges_);
    if (!scores_.empty()) writer.array("tokenizer.ggml.scores", kFloat32, scores_);
    more(writer);
    return Tokenizer::load(dir_.write("m.gguf", writer.bytes()));
  }
  void expect_error(const std::string& part, const std::function<void(GgufWriter&)>& more = [](GgufWriter&) {}) {
    const auto tokenizer = load(more);
    ASSERT_FALSE(tokenizer.has_value()) << part;
    EXPECT_THAT(tokenizer.error().message(), HasSubstr("m.gguf"));
    EXPECT_THAT(tokenizer.error().message(), HasSubstr(part));
  }

 private:
  files::testing::TempDir dir_;
};

TEST_F(GgufTokenizer, ByteLevel) {
  const auto tokenizer = load().value();
  EXPECT_EQ(tokenizer->encode("abc ab<s><t ool>", {.add_special_tokens = true}).value(), (Ids{4, 5, 3, 6, 7}));
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);  // no key: none, and never token 11
  EXPECT_TRUE(tokenizer->is_special(6));
  EXPECT_FALSE(tokenizer->is_special(7));
  EXPECT_EQ(tokenizer->decode(Ids{4, 5, 6, 7}, true), "abc <t ool>");
  const std::vector<ByteRange> all = {{0, 10}};
  EXPECT_EQ(tokenizer->encode_with_literal_ranges("c<t ool>ab", all).value(), (Ids{2, 7, 3}));
}

TEST_F(GgufTokenizer, BosRules) {
  const auto encode = [&](const std::function<void(GgufWriter&)>& more) {
    return load(more).value()->encode("ab", {.add_special_tokens = true}).value();
  };
  const auto bos = [](GgufWriter& w) { w.u32("tokenizer.ggml.bos_token_id", 6); };
  EXPECT_EQ(encode(bos), (Ids{3}));  // gpt-2: not by default
  EXPECT_EQ(encode([&](GgufWriter& w) {
              bos(w);
              w.boolean("tokenizer.ggml.add_bos_token", true);
            }),
            (Ids{6, 3}));
  EXPECT_EQ(encode([&](GgufWriter& w) { w.boolean("tokenizer.ggml.add_bos_token", true); }),
            (Ids{3}));  // nothing to add
  pre_ = "llama-bpe";
  EXPECT_EQ(encode(bos), (Ids{6, 3}));
  EXPECT_EQ(encode([&](GgufWriter& w) {
              bos(w);
              w.boolean("tokenizer.ggml.add_bos_token", false);
            }),
            (Ids{3}));
  EXPECT_EQ(encode([&](GgufWriter& w) {
              w.u32("tokenizer.ggml.eos_token_id", 7);
              w.boolean("tokenizer.ggml.add_eos_token", true);
            }),
            (Ids{3, 7}));
}

TEST_F(GgufTokenizer, IgnoreMergesAndQwenNfc) {
  merges_ = {"a b"};  // nothing makes abc
  EXPECT_EQ(load().value()->encode("abc").value(), (Ids{3, 2}));
  pre_ = "llama-bpe";
  EXPECT_EQ(load().value()->encode("abc").value(), (Ids{4}));
  tokens_.insert(tokens_.end(), {"Ã", "©", "Ã©"});  // the bytes of é
  types_.insert(types_.end(), {1, 1, 1});
  merges_ = {"Ã ©"};
  pre_ = "qwen2";
  EXPECT_EQ(load().value()->encode("e\u0301").value(), (Ids{10}));
  pre_ = "gpt-2";
  EXPECT_EQ(load().value()->encode("\u00e9").value(), (Ids{10}));
  EXPECT_EQ(load().value()->encode("e\u0301").value(), Ids{});
}

TEST_F(GgufTokenizer, EveryPreTypeLoads) {
  for (const char* pre : {"", "default", "gpt-2", "smollm", "qwen2", "llama-bpe", "tekken", "gpt-4o", "deepseek-llm",
                          "deepseek-coder", "deepseek-v3"}) {
    pre_ = pre;
    const auto tokenizer = load();
    ASSERT_TRUE(tokenizer.has_value()) << pre << ": " << tokenizer.error().to_string();
    EXPECT_EQ((*tokenizer)->encode("abc").value(), (Ids{4})) << pre;
  }
}

TEST_F(GgufTokenizer, SentencePiece) {
  model_ = "llama";
  pre_ = "default";
  merges_.clear();
  tokens_ = {"<unk>", "<s>", "</s>", "<0xC3>", "<0xA9>", "▁", "a", "b", "▁a", "ab", "▁ab"};
  types_ = {2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 1};
  scores_ = {0, 0, 0, 0, 0, -9, -8, -7, -3, -1, -2};
  const auto ids = [](GgufWriter& w) {
    w.u32("tokenizer.ggml.bos_token_id", 1);
    w.u32("tokenizer.ggml.unknown_token_id", 0);
  };
  const auto tokenizer = load(ids).value();
  EXPECT_EQ(tokenizer->encode("ab a", {.add_special_tokens = true}).value(), (Ids{1, 10, 8}));
  EXPECT_EQ(tokenizer->encode("é\u4e2d").value(), (Ids{5, 3, 4, 0}));  // bytes, and unknown where they are missing
  EXPECT_EQ(tokenizer->encode("a</s>b").value(), (Ids{8, 2, 5, 7}));   // a blank after each control token
  EXPECT_EQ(tokenizer->decode(Ids{1, 10, 8, 3, 4}, true), "ab aé");
  EXPECT_EQ(load([&](GgufWriter& w) {
              ids(w);
              w.boolean("tokenizer.ggml.add_space_prefix", false);
            })
                .value()
                ->encode("ab")
                .value(),
            (Ids{9}));
  scores_.pop_back();
  expect_error("tokenizer.ggml.scores: 10 values for 11 tokens");
  scores_.clear();
  expect_error("tokenizer.ggml.scores: missing");
  scores_ = {0, 0, 0, 0, 0, NAN, 0, 0, 0, 0, 0};
  expect_error("the score of token 5");
}

TEST_F(GgufTokenizer, Faults) {
  expect_error("tokenizer.ggml.bos_token_id: 8, but there are 8 tokens",
               [](GgufWriter& w) { w.u32("tokenizer.ggml.bos_token_id", 8); });
  expect_error("tokenizer.ggml.eos_token_id: 4294967295",
               [](GgufWriter& w) { w.u32("tokenizer.ggml.eos_token_id", 0xFFFFFFFF); });
  const auto with = [&](auto& member, auto value, const char* part) {
    const auto kept = member;
    member = value;
    expect_error(part);
    member = kept;
  };
  with(model_, std::string(), "tokenizer.ggml.model: missing");
  with(model_, std::string("bert"), "tokenizer.ggml.model is \"bert\", supported are gpt2 and llama");
  with(pre_, std::string("odd"), "tokenizer.ggml.pre is \"odd\"");
  with(tokens_, std::vector<std::string>{}, "tokenizer.ggml.tokens: missing or empty");
  with(types_, std::vector<int32_t>{1, 1}, "tokenizer.ggml.token_type: 2 values for 8 tokens");
  with(types_, std::vector<int32_t>{1, 1, 1, 1, 9, 1, 3, 4}, "tokenizer.ggml.token_type: 9 for token 4");
  with(merges_, std::vector<std::string>{}, "tokenizer.ggml.merges: missing");
  with(merges_, std::vector<std::string>{"a b", "abc"}, "merge 1 is \"abc\"");
  with(merges_, std::vector<std::string>{"a b", ""}, "merge 1 is \"\"");
  with(merges_, std::vector<std::string>{"a \xff"}, "merge 0");
  with(merges_, std::vector<std::string>{"b c"}, "\"bc\" is no token");
  auto broken = tokens_;
  broken[2] = "\xff";
  with(tokens_, broken, "token 2 is not UTF-8");
  broken[2] = "a";
  with(tokens_, broken, "\"a\" is there twice");
}

}  // namespace
}  // namespace lockstep::tokenizer
