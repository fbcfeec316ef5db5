// SPDX-License-Identifier: Apache-2.0
#include "files/model_config.h"

#include <limits>
#include <random>

#include "files/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace lockstep::files {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempDir;

json qwen3() {
  return json::parse(R"({"architectures":["Qwen3ForCausalLM"],"model_type":"qwen3","vocab_size":1000,
    "hidden_size":1024,"intermediate_size":3072,"num_hidden_layers":4,"num_attention_heads":16,
    "num_key_value_heads":8,"head_dim":128,"max_position_embeddings":40960,"rms_norm_eps":1e-6,"rope_theta":1000000,
    "hidden_act":"silu","tie_word_embeddings":true,"torch_dtype":"bfloat16","bos_token_id":1,"eos_token_id":[2,3]})");
}
json llama() {
  json c = qwen3();
  c["architectures"] = {"LlamaForCausalLM"};
  c["model_type"] = "llama";
  return c;
}
json qwen2() {
  json c = qwen3();
  c["architectures"] = {"Qwen2ForCausalLM"};
  c["model_type"] = "qwen2";
  return c;
}
json with(json c, const std::string& key, json value) {
  c[key] = std::move(value);
  return c;
}
json without(json c, const std::string& key) {
  c.erase(key);
  return c;
}

ModelConfig parsed(const json& c) {
  const auto config = parse_model_config(c.dump(), "dir/config.json");
  EXPECT_TRUE(config.has_value()) << config.error().to_string();
  return config.value_or(ModelConfig{});
}

void refused(const json& c, StatusCode code, const std::string& part) {
  const auto config = parse_model_config(c.dump(), "dir/config.json");
  ASSERT_FALSE(config.has_value()) << "accepted; expected an error with: " << part;
  EXPECT_EQ(config.error().code(), code) << config.error().to_string();
  EXPECT_THAT(config.error().message(), HasSubstr(part));
  EXPECT_THAT(config.error().message(), HasSubstr("dir/config.json"));
}
void damaged(const json& c, const std::string& part) { refused(c, StatusCode::kDataLoss, part); }
void unsupported(const json& c, const std::string& part) { refused(c, StatusCode::kUnsupported, part); }

TEST(ModelConfig, EveryField) {
  const ModelConfig c = parsed(qwen3());
  EXPECT_EQ(c.architecture, Architecture::kQwen3);
  EXPECT_EQ(c.source, "dir/config.json");
  EXPECT_EQ(c.vocab_size, 1000);
  EXPECT_EQ(c.hidden_size, 1024);
  EXPECT_EQ(c.intermediate_size, 3072);
  EXPECT_EQ(c.num_layers, 4);
  EXPECT_EQ(c.num_heads, 16);
  EXPECT_EQ(c.num_kv_heads, 8);
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.max_position, 40960);
  EXPECT_EQ(c.rms_norm_eps, 1e-6);
  EXPECT_EQ(c.rope.type, RopeType::kDefault);
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_FALSE(c.attention_bias);
  EXPECT_FALSE(c.attention_o_bias);
  EXPECT_TRUE(c.qk_norm);
  EXPECT_EQ(c.dtype, "bfloat16");
  EXPECT_EQ(c.bos_token_id, 1);
  EXPECT_THAT(c.eos_token_ids, ElementsAre(2, 3));
  EXPECT_EQ(c.kv_elements_per_token(), 2 * 4 * 8 * 128);
}

// Case 34 of the public cases.
TEST(ModelConfig, HeadDim) {
  EXPECT_EQ(parsed(without(qwen3(), "head_dim")).head_dim, 128);
  EXPECT_EQ(parsed(with(qwen3(), "head_dim", nullptr)).head_dim, 128);
  EXPECT_EQ(parsed(with(qwen3(), "head_dim", 32)).head_dim, 32);
  EXPECT_EQ(parsed(without(llama(), "head_dim")).head_dim, 64);
  EXPECT_EQ(parsed(without(qwen2(), "head_dim")).head_dim, 64);
  EXPECT_EQ(parsed(with(without(qwen3(), "head_dim"), "hidden_size", 1000)).head_dim, 128);
  damaged(with(without(llama(), "head_dim"), "hidden_size", 1000),
          "hidden_size 1000 is no multiple of num_attention_heads 16");
  damaged(with(qwen3(), "head_dim", 0), "head_dim: expected 1..2^31-1, found 0");
  damaged(with(qwen3(), "head_dim", 127), "head_dim: expected an even number, found 127");
}

TEST(ModelConfig, Defaults) {
  json c = qwen3();
  for (const char* key : {"num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "rope_theta", "hidden_act",
                          "tie_word_embeddings", "torch_dtype", "bos_token_id", "eos_token_id"}) {
    c.erase(key);
  }
  const ModelConfig q = parsed(c);
  EXPECT_EQ(q.num_kv_heads, 16);
  EXPECT_EQ(q.max_position, 32768);
  EXPECT_EQ(q.rms_norm_eps, 1e-6);
  EXPECT_EQ(q.rope.theta, 10000.0);
  EXPECT_FALSE(q.tie_word_embeddings);
  EXPECT_EQ(q.dtype, "");
  EXPECT_EQ(q.bos_token_id, std::nullopt);
  EXPECT_THAT(q.eos_token_ids, IsEmpty());
  EXPECT_EQ(parsed(without(llama(), "max_position_embeddings")).max_position, 2048);
  EXPECT_THAT(parsed(with(c, "eos_token_id", 7)).eos_token_ids, ElementsAre(7));
}

TEST(ModelConfig, Biases) {
  EXPECT_TRUE(parsed(qwen2()).attention_bias);
  EXPECT_FALSE(parsed(qwen2()).attention_o_bias);
  EXPECT_TRUE(parsed(with(qwen2(), "attention_bias", false)).attention_bias);
  for (const json& c : {qwen3(), llama()}) {
    EXPECT_TRUE(parsed(with(c, "attention_bias", true)).attention_bias);
    EXPECT_TRUE(parsed(with(c, "attention_bias", true)).attention_o_bias);
    EXPECT_FALSE(parsed(c).attention_bias);
  }
  EXPECT_FALSE(parsed(llama()).qk_norm);
  EXPECT_FALSE(parsed(qwen2()).qk_norm);
}

TEST(ModelConfig, Architectures) {
  EXPECT_EQ(parsed(without(llama(), "architectures")).architecture, Architecture::kLlama);
  EXPECT_EQ(parsed(without(llama(), "model_type")).architecture, Architecture::kLlama);
  EXPECT_EQ(parsed(with(llama(), "architectures", json::array())).architecture, Architecture::kLlama);
  unsupported(with(qwen3(), "architectures", {"Qwen3MoeForCausalLM"}), "Qwen3MoeForCausalLM is not supported");
  unsupported(with(qwen3(), "architectures", {"Qwen3ForSequenceClassification"}), "Qwen3ForSequenceClassification");
  unsupported(with(without(qwen3(), "architectures"), "model_type", "gemma3"),
              "model_type: \"gemma3\" is not supported (supported: qwen3, qwen2, llama)");
  damaged(with(qwen3(), "model_type", "llama"), "model_type: expected qwen3, as architectures says, found llama");
  damaged(without(without(qwen3(), "architectures"), "model_type"), "model_type: expected one of");
  damaged(with(qwen3(), "architectures", {3}), "architectures: expected a list of class names");
  damaged(with(qwen3(), "architectures", "Qwen3ForCausalLM"), "architectures: expected a list");
}

TEST(ModelConfig, WrongValuesAreRefused) {
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}) {
    damaged(without(qwen3(), key), std::string(key) + ": expected an integer, found none");
  }
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                          "num_key_value_heads", "head_dim", "max_position_embeddings"}) {
    for (const json& value : {json(-1), json(0), json(int64_t{1} << 31), json(std::numeric_limits<int64_t>::min())}) {
      damaged(with(qwen3(), key, value), std::string(key) + ": expected 1..2^31-1, found");
    }
    damaged(with(qwen3(), key, 12.0), std::string(key) + ": expected an integer, found 12.0");
    damaged(with(qwen3(), key, "12"), std::string(key) + ": expected an integer, found \"12\"");
    damaged(with(qwen3(), key, json::array({12})), std::string(key) + ": expected an integer, found a list");
    damaged(with(qwen3(), key, ~uint64_t{0}), std::string(key) + ": expected an integer, found 18446744073709551615");
  }
  damaged(with(qwen3(), "num_key_value_heads", 5), "num_attention_heads 16 is no multiple of num_key_value_heads 5");
  damaged(with(qwen3(), "rms_norm_eps", -1e-6), "rms_norm_eps: expected a number above 0");
  damaged(with(qwen3(), "rms_norm_eps", "small"), "rms_norm_eps: expected a number, found \"small\"");
  damaged(with(qwen3(), "rope_theta", 0), "rope_theta: expected a number above 1, found 0");
  damaged(with(qwen3(), "rope_theta", -5.0), "rope_theta");
  damaged(with(qwen3(), "tie_word_embeddings", 1), "tie_word_embeddings: expected true or false, found 1");
  damaged(with(qwen3(), "eos_token_id", -1), "eos_token_id: expected token ids in 0..2^31-1, found -1");
  damaged(with(qwen3(), "eos_token_id", {1, "x"}), "eos_token_id: expected token ids");
  damaged(with(qwen3(), "bos_token_id", int64_t{1} << 31), "bos_token_id: expected a token id");
  json huge = qwen3();
  for (const char* key : {"num_attention_heads", "num_key_value_heads", "num_hidden_layers", "hidden_size"}) {
    huge[key] = 2147483646;
  }
  damaged(huge, "products of heads, head_dim, hidden size and layers are over 2^63-1");
}

TEST(ModelConfig, WhatWouldBeSilentlyWrongIsRefused) {
  unsupported(with(qwen3(), "hidden_act", "gelu"), "hidden_act: only silu is supported, found \"gelu\"");
  unsupported(with(llama(), "mlp_bias", true), "mlp_bias");
  EXPECT_EQ(parsed(with(llama(), "mlp_bias", false)).num_layers, 4);
  unsupported(
      with(qwen3(), "quantization_config", {{"quant_method", "bitsandbytes"}}),
      "quantization_config: checkpoints quantised with bitsandbytes are not supported, only compressed-tensors, "
      "fp8, gptq and awq");
  unsupported(with(qwen3(), "quantization_config", json::object()), "an unnamed method");
  EXPECT_EQ(parsed(with(qwen3(), "quantization_config", nullptr)).num_layers, 4);
  unsupported(with(llama(), "partial_rotary_factor", 0.5), "partial_rotary_factor: expected 1, found 0.5");

  json sliding = with(with(qwen3(), "use_sliding_window", true), "sliding_window", 4096);
  EXPECT_EQ(parsed(sliding).num_layers, 4);  // max_window_layers defaults to 28: no layer slides
  unsupported(with(sliding, "max_window_layers", 3), "use_sliding_window: layers with a sliding window");
  EXPECT_EQ(parsed(with(sliding, "max_window_layers", 4)).num_layers, 4);
  EXPECT_EQ(parsed(with(with(sliding, "max_window_layers", 0), "sliding_window", nullptr)).num_layers, 4);
  EXPECT_EQ(parsed(with(with(sliding, "max_window_layers", 0), "use_sliding_window", false)).num_layers, 4);
  const json full = {"full_attention", "full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(parsed(with(with(sliding, "max_window_layers", 0), "layer_types", full)).num_layers, 4);
  json mixed = full;
  mixed[2] = "sliding_attention";
  unsupported(with(qwen3(), "layer_types", mixed), "layer_types: only full_attention is supported");
  damaged(with(qwen3(), "layer_types", {"full_attention"}), "layer_types: expected a list of 4 names");
}

TEST(ModelConfig, RopeOfBothStyles) {
  const json yarn = {{"rope_type", "yarn"},
                     {"factor", 4.0},
                     {"original_max_position_embeddings", 32768},
                     {"beta_fast", 16},
                     {"attention_factor", 1.25},
                     {"mscale", 0.5},
                     {"mscale_all_dim", 0.75},
                     {"truncate", false}};
  ModelConfig c = parsed(with(qwen3(), "rope_scaling", yarn));
  EXPECT_EQ(c.rope.type, RopeType::kYarn);
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_EQ(c.rope.factor, 4.0);
  EXPECT_EQ(c.rope.original_max_position, 32768);
  EXPECT_EQ(c.rope.beta_fast, 16.0);
  EXPECT_EQ(c.rope.beta_slow, 1.0);
  EXPECT_EQ(c.rope.attention_factor, 1.25);
  EXPECT_EQ(c.rope.mscale, 0.5);
  EXPECT_EQ(c.rope.mscale_all_dim, 0.75);
  EXPECT_FALSE(c.rope.truncate);
  EXPECT_EQ(c.max_position, 40960);

  c = parsed(with(without(qwen3(), "rope_theta"), "rope_parameters",
                  {{"rope_type", "linear"}, {"factor", 2}, {"rope_theta", 500.0}}));
  EXPECT_EQ(c.rope.type, RopeType::kLinear);
  EXPECT_EQ(c.rope.factor, 2.0);
  EXPECT_EQ(c.rope.theta, 500.0);

  const json llama3 = {{"type", "llama3"},
                       {"factor", 8},
                       {"low_freq_factor", 1},
                       {"high_freq_factor", 4},
                       {"original_max_position_embeddings", 8192}};
  c = parsed(with(llama(), "rope_scaling", llama3));
  EXPECT_EQ(c.rope.type, RopeType::kLlama3);
  EXPECT_EQ(c.rope.high_freq_factor, 4.0);
  // rope_type beats the older name of the key; null and {} are as if absent; a factor of yarn may follow from the
  // lengths.
  EXPECT_EQ(parsed(with(qwen3(), "rope_scaling", {{"rope_type", "default"}, {"type", "dynamic"}})).rope.type,
            RopeType::kDefault);
  EXPECT_EQ(parsed(with(qwen3(), "rope_scaling", json::object())).rope.type, RopeType::kDefault);
  EXPECT_EQ(parsed(with(qwen3(), "rope_scaling", without(without(yarn, "factor"), "attention_factor"))).rope.factor,
            1.25);
}

TEST(ModelConfig, RopeOfTheServedContext) {
  const auto scaling = [](json value) { return with(qwen3(), "rope_scaling", std::move(value)); };
  ModelConfig c = parsed(scaling({{"type", "dynamic"}, {"factor", 2.5}}));
  EXPECT_EQ(c.rope.type, RopeType::kDynamic);
  EXPECT_EQ(c.rope.factor, 2.5);
  EXPECT_EQ(c.max_position, 40960);
  EXPECT_EQ(c.longest_context(), 102400);
  EXPECT_EQ(parsed(qwen3()).longest_context(), 40960);
  damaged(scaling({{"type", "dynamic"}}), "rope_scaling.factor: expected a number, found none");
  damaged(scaling({{"type", "dynamic"}, {"factor", 1e9}}), "rope factor: expected at most 1e+06, found 1000000000");
  EXPECT_EQ(parsed(scaling({{"type", "dynamic"}, {"factor", 1e6}})).longest_context(), 2147483647);
  damaged(with(scaling({{"type", "dynamic"}, {"factor", 2}}), "head_dim", 2), "dynamic rope needs at least 4, found 2");

  const std::vector<float> shorter(64, 1.0f);
  const std::vector<float> longer(64, 4.5f);
  const json longrope = {{"type", "longrope"}, {"short_factor", shorter}, {"long_factor", longer}};
  c = parsed(with(scaling(longrope), "original_max_position_embeddings", 4096));
  EXPECT_EQ(c.rope.type, RopeType::kLongRope);
  EXPECT_EQ(c.rope.original_max_position, 4096);
  EXPECT_EQ(c.rope.factor, 10.0);
  EXPECT_EQ(c.rope.short_factors, shorter);
  EXPECT_EQ(c.rope.long_factors, longer);
  EXPECT_EQ(c.longest_context(), 40960);
  EXPECT_FALSE(c.rope.attention_factor.has_value());
  // The config's own length wins over the dictionary's, as in transformers 5; the early name of the type.
  c = parsed(with(scaling(with(with(with(longrope, "type", "su"), "original_max_position_embeddings", 64),
                               "attention_factor", 1.25)),
                  "original_max_position_embeddings", 8192));
  EXPECT_EQ(c.rope.original_max_position, 8192);
  EXPECT_EQ(c.rope.attention_factor, 1.25);
  damaged(scaling(without(longrope, "short_factor")),
          "rope_scaling.short_factor: expected a list of numbers, found none");
  damaged(scaling(with(longrope, "long_factor", {1, "2"})), "rope_scaling.long_factor: expected a list of numbers");
  damaged(scaling(with(longrope, "long_factor", {1, 2})), "long_factor: expected 64 numbers (head_dim / 2), found 2");
  damaged(scaling(with(longrope, "short_factor", std::vector<float>(64, 0.0f))),
          "short_factor: expected numbers above 0, found 0");
  damaged(with(scaling(longrope), "original_max_position_embeddings", 1), "longrope needs at least 2, found 1");
}

TEST(ModelConfig, WrongRopeIsRefused) {
  const auto scaling = [](json value) { return with(qwen3(), "rope_scaling", std::move(value)); };
  for (const char* type : {"mrope", "ntk"}) {
    unsupported(scaling({{"rope_type", type}, {"factor", 2.0}}),
                fmt::format("rope type \"{}\" is not supported", type));
    unsupported(scaling({{"type", type}, {"factor", 2.0}}), fmt::format("rope_scaling.type: rope type \"{}\"", type));
  }
  damaged(scaling({{"type", "linear"}}), "rope_scaling.factor: expected a number, found none");
  damaged(scaling({{"type", "linear"}, {"factor", 0.5}}), "rope factor: expected at least 1, found 0.5");
  damaged(scaling({{"type", "linear"}, {"factor", "2"}}), "rope_scaling.factor: expected a number, found \"2\"");
  damaged(scaling({{"type", 3}}), "rope_scaling.type: expected a string, found 3");
  damaged(scaling("yarn"), "rope_scaling: expected an object, found \"yarn\"");
  damaged(scaling({{"type", "yarn"}}), "rope_scaling.factor");
  damaged(scaling({{"type", "yarn"}, {"factor", 2}, {"original_max_position_embeddings", 0}}),
          "original_max_position_embeddings: expected 1..2^31-1, found 0");
  damaged(scaling({{"type", "yarn"}, {"factor", 2}, {"beta_fast", 1}, {"beta_slow", 1}}), "beta_slow < beta_fast");
  damaged(scaling({{"type", "yarn"}, {"factor", 2}, {"attention_factor", -1}}), "attention_factor");
  damaged(scaling({{"type", "llama3"}, {"factor", 2}}), "low_freq_factor: expected a number, found none");
  damaged(scaling({{"type", "llama3"}, {"factor", 2}, {"low_freq_factor", 4}, {"high_freq_factor", 4}}),
          "0 < low_freq_factor < high_freq_factor");
  unsupported(with(qwen3(), "rope_parameters", {{"full_attention", {{"rope_theta", 5.0}}}}), "rope per layer type");
  unsupported(scaling({{"type", "default"}, {"mrope_section", {1, 2}}}), "mrope_section");
}

TEST(ModelConfig, HostileJson) {
  const auto message = [](const std::string& text) {
    const auto config = parse_model_config(text, "config.json");
    return config ? std::string("accepted") : config.error().message();
  };
  EXPECT_THAT(message(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(message("[]"), HasSubstr("expected a JSON object, found a list"));
  EXPECT_THAT(message("null"), HasSubstr("found null"));
  EXPECT_THAT(message("{} x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(message("{\"a\":\"\xff\"}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(message("{\"a\":1e999}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(message("{\"a\":NaN}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(message("{\"hidden_size\":1,\"hidden_size\":2}"), HasSubstr("key \"hidden_size\" occurs twice"));
  EXPECT_THAT(message("{\"a\":" + std::string(200000, '[')), HasSubstr("nested deeper than 64"));
  std::string nested;
  for (int i = 0; i < 100; ++i) nested += "{\"a\":";
  EXPECT_THAT(message(nested), HasSubstr("nested deeper than 64"));
  std::string many = "{\"a\":[0";
  for (int i = 0; i < 2200000; ++i) many += ",0";
  EXPECT_THAT(message(many + "]}"), HasSubstr("expected at most 2097152 JSON values"));
}

TEST(ModelConfig, ChangedBytesNeverCrash) {
  const std::string good = with(qwen3(), "rope_scaling", {{"type", "yarn"}, {"factor", 2}}).dump();
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_FALSE(parse_model_config(good.substr(0, n), "c").has_value());
  }
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (auto changes = random() % 3 + 1; changes > 0; --changes) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    const auto config = parse_model_config(text, "c");
    if (!config) continue;
    EXPECT_EQ(config->num_heads % config->num_kv_heads, 0);
    EXPECT_GT(config->head_dim, 0);
  }
}

void expect_equal(const ModelConfig& a, const ModelConfig& b) {
  EXPECT_EQ(a.architecture, b.architecture);
  EXPECT_EQ(a.vocab_size, b.vocab_size);
  EXPECT_EQ(a.hidden_size, b.hidden_size);
  EXPECT_EQ(a.intermediate_size, b.intermediate_size);
  EXPECT_EQ(a.num_layers, b.num_layers);
  EXPECT_EQ(a.num_heads, b.num_heads);
  EXPECT_EQ(a.num_kv_heads, b.num_kv_heads);
  EXPECT_EQ(a.head_dim, b.head_dim);
  EXPECT_EQ(a.max_position, b.max_position);
  EXPECT_EQ(a.rms_norm_eps, b.rms_norm_eps);
  EXPECT_EQ(a.rope.type, b.rope.type);
  EXPECT_EQ(a.rope.theta, b.rope.theta);
  EXPECT_EQ(a.rope.factor, b.rope.factor);
  EXPECT_EQ(a.rope.original_max_position, b.rope.original_max_position);
  EXPECT_EQ(a.rope.low_freq_factor, b.rope.low_freq_factor);
  EXPECT_EQ(a.rope.high_freq_factor, b.rope.high_freq_factor);
  EXPECT_EQ(a.tie_word_embeddings, b.tie_word_embeddings);
  EXPECT_EQ(a.attention_bias, b.attention_bias);
  EXPECT_EQ(a.attention_o_bias, b.attention_o_bias);
  EXPECT_EQ(a.qk_norm, b.qk_norm);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_EQ(a.bos_token_id, b.bos_token_id);
  EXPECT_EQ(a.eos_token_ids, b.eos_token_ids);
}

TEST(ModelConfig, GoldenModelsInBothStyles) {
  const std::filesystem::path golden = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/golden";
  for (const char* name : {"tiny-qwen3", "tiny-qwen3-untied", "tiny-qwen2", "tiny-llama", "tiny-qwen3-yarn"}) {
    SCOPED_TRACE(name);
    const auto newer = load_model_config(golden / name / "config.json");
    const auto older = load_model_config(golden / name / "config_v4.json");
    ASSERT_TRUE(newer.has_value()) << newer.error().to_string();
    ASSERT_TRUE(older.has_value()) << older.error().to_string();
    expect_equal(*newer, *older);
    EXPECT_EQ(newer->dtype, "bfloat16");
  }
  const ModelConfig yarn = *load_model_config(golden / "tiny-qwen3-yarn/config.json");
  EXPECT_EQ(yarn.rope.type, RopeType::kYarn);
  EXPECT_EQ(yarn.rope.factor, 4.0);
  EXPECT_EQ(yarn.rope.original_max_position, 64);
  EXPECT_EQ(yarn.max_position, 256);
  const ModelConfig small_llama = *load_model_config(golden / "tiny-llama/config.json");
  EXPECT_EQ(small_llama.rope.type, RopeType::kLlama3);
  EXPECT_EQ(small_llama.rope.theta, 500000.0);
  EXPECT_EQ(small_llama.rms_norm_eps, 1e-5);
  EXPECT_EQ(small_llama.bos_token_id, 4094);
  EXPECT_EQ(load_model_config(golden / "tiny-qwen2/config.json")->head_dim, 16);
  EXPECT_EQ(load_model_config(golden / "none/config.json").error().code(), StatusCode::kNotFound);
}

TEST(GenerationConfig, ValuesAndRefusals) {
  const TempDir dir;
  const auto load = [&](const std::string& text) { return load_generation_config(dir.write("g.json", text)); };
  const auto absent = load_generation_config(dir.path() / "none.json");
  ASSERT_TRUE(absent.has_value());
  EXPECT_EQ(absent->temperature, std::nullopt);
  EXPECT_THAT(absent->eos_token_ids, IsEmpty());
  const auto config = load(R"({"do_sample":true,"temperature":0.6,"top_p":0.95,"top_k":20,"min_p":0,"bos_token_id":5,
                               "repetition_penalty":1.1,"eos_token_id":[7,8],"pad_token_id":9,"x":{}})");
  ASSERT_TRUE(config.has_value()) << config.error().to_string();
  EXPECT_EQ(config->do_sample, true);
  EXPECT_EQ(config->temperature, 0.6);
  EXPECT_EQ(config->top_p, 0.95);
  EXPECT_EQ(config->min_p, 0.0);
  EXPECT_EQ(config->top_k, 20);
  EXPECT_EQ(config->repetition_penalty, 1.1);
  EXPECT_EQ(config->bos_token_id, 5);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(7, 8));
  EXPECT_EQ(load(R"({"temperature":null})")->temperature, std::nullopt);
  EXPECT_THAT(load(R"({"temperature":-1})").error().message(), HasSubstr("temperature: expected 0..1000000, found -1"));
  EXPECT_THAT(load(R"({"top_p":1.5})").error().message(), HasSubstr("top_p"));
  EXPECT_THAT(load(R"({"top_k":1.5})").error().message(), HasSubstr("top_k: expected an integer, found 1.5"));
  EXPECT_THAT(load(R"([])").error().message(), HasSubstr("expected a JSON object"));
}

}  // namespace
}  // namespace lockstep::files
