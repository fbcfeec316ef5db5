// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "files/gguf.h"
#include "files/model_config.h"
#include "files/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::files {
namespace {

using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempDir;

/// The keys of a model of hidden size 96 with 4/2 heads, without head size and rope keys, and its embedding of 10 rows.
GgufWriter base(const std::string& arch) {
  GgufWriter w;
  w.string("general.architecture", arch).u32(arch + ".block_count", 2).u32(arch + ".embedding_length", 96);
  w.u32(arch + ".feed_forward_length", 192).u32(arch + ".attention.head_count", 4);
  w.u32(arch + ".attention.head_count_kv", 2).u32(arch + ".context_length", 512);
  w.f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  w.tensor("token_embd.weight", {96, 10}, 8, std::string(size_t{34} * 30, '\0'));
  return w;
}

Expected<ModelConfig> read(const GgufWriter& w) {
  const TempDir dir;
  const auto file = GgufFile::open(dir.write("m.gguf", w.bytes()));
  EXPECT_TRUE(file.has_value()) << file.error().to_string();
  return model_config_from_gguf(**file);
}

ModelConfig parsed(const GgufWriter& w) {
  const auto config = read(w);
  EXPECT_TRUE(config.has_value()) << config.error().to_string();
  return config.value_or(ModelConfig{});
}

void refused(const GgufWriter& w, StatusCode code, const std::string& part) {
  const auto config = read(w);
  ASSERT_FALSE(config.has_value()) << "accepted; expected an error with: " << part;
  EXPECT_EQ(config.error().code(), code) << config.error().to_string();
  EXPECT_THAT(config.error().message(), HasSubstr(part));
  EXPECT_THAT(config.error().message(), HasSubstr("m.gguf"));
}

TEST(GgufConfig, EveryField) {
  GgufWriter w = base("qwen3");
  w.u32("qwen3.attention.key_length", 128).u32("qwen3.attention.value_length", 128).f32("qwen3.rope.freq_base", 1e6f);
  w.u32("tokenizer.ggml.eos_token_id", 7).u32("tokenizer.ggml.eot_token_id", 5).u32("tokenizer.ggml.bos_token_id", 3);
  w.u32("qwen3.rope.dimension_count", 128).u32("general.quantization_version", 2);
  const ModelConfig c = parsed(w);
  EXPECT_EQ(c.architecture, Architecture::kQwen3);
  EXPECT_EQ(c.vocab_size, 10);
  EXPECT_EQ(c.hidden_size, 96);
  EXPECT_EQ(c.intermediate_size, 192);
  EXPECT_EQ(c.num_layers, 2);
  EXPECT_EQ(c.num_heads, 4);
  EXPECT_EQ(c.num_kv_heads, 2);
  EXPECT_EQ(c.head_dim, 128);  // case 34
  EXPECT_EQ(c.max_position, 512);
  EXPECT_EQ(c.rms_norm_eps, static_cast<double>(1e-5f));
  EXPECT_EQ(c.rope.type, RopeType::kDefault);
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_TRUE(c.qk_norm);
  EXPECT_FALSE(c.attention_bias);
  EXPECT_FALSE(c.attention_o_bias);
  EXPECT_EQ(c.bos_token_id, 3);
  EXPECT_THAT(c.eos_token_ids, ElementsAre(7, 5));
}

TEST(GgufConfig, DefaultsAndTensors) {
  ModelConfig c = parsed(base("llama"));
  EXPECT_EQ(c.head_dim, 24);
  EXPECT_EQ(c.rope.theta, 10000.0);
  EXPECT_EQ(c.bos_token_id, std::nullopt);
  EXPECT_THAT(c.eos_token_ids, IsEmpty());
  EXPECT_FALSE(c.qk_norm);
  EXPECT_FALSE(c.attention_bias);
  c = parsed(base("llama").tensor("output.weight", {96, 10}, 8, std::string(size_t{34} * 30, '\0')));
  EXPECT_FALSE(c.tie_word_embeddings);
  c = parsed(base("llama").tensor("blk.0.attn_q.bias", {96}, 0, std::string(384, '\0')));
  EXPECT_TRUE(c.attention_bias);
  EXPECT_FALSE(c.attention_o_bias);
  c = parsed(base("llama").tensor("blk.0.attn_output.bias", {96}, 0, std::string(384, '\0')));
  EXPECT_TRUE(c.attention_o_bias);
  EXPECT_TRUE(parsed(base("qwen2")).attention_bias);
  c = parsed(base("qwen2").u32("tokenizer.ggml.eos_token_id", 7).u32("tokenizer.ggml.eot_token_id", 7));
  EXPECT_THAT(c.eos_token_ids, ElementsAre(7));
}

TEST(GgufConfig, Rope) {
  ModelConfig c = parsed(base("qwen3")
                             .string("qwen3.rope.scaling.type", "yarn")
                             .f32("qwen3.rope.scaling.factor", 4.0f)
                             .u32("qwen3.rope.scaling.original_context_length", 128)
                             .f32("qwen3.rope.scaling.yarn_beta_fast", 16.0f));
  EXPECT_EQ(c.rope.type, RopeType::kYarn);
  EXPECT_EQ(c.rope.factor, 4.0);
  EXPECT_EQ(c.rope.original_max_position, 128);
  EXPECT_EQ(c.rope.beta_fast, 16.0);
  EXPECT_EQ(c.rope.beta_slow, 1.0);
  EXPECT_EQ(c.rope.attention_factor, std::nullopt);
  c = parsed(base("llama").string("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 2.0f));
  EXPECT_EQ(c.rope.type, RopeType::kLinear);
  EXPECT_EQ(c.rope.factor, 2.0);
  EXPECT_EQ(parsed(base("llama").f32("llama.rope.scale_linear", 2.0f)).rope.type, RopeType::kLinear);
  EXPECT_EQ(parsed(base("llama").string("llama.rope.scaling.type", "none")).rope.type, RopeType::kDefault);
  refused(base("llama").string("llama.rope.scaling.type", "dynamic"), StatusCode::kUnsupported,
          "llama.rope.scaling.type: \"dynamic\" is not supported");
  refused(base("llama").string("llama.rope.scaling.type", "linear"), StatusCode::kDataLoss, "rope.scaling.factor");
  refused(base("llama").string("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 0.0f),
          StatusCode::kDataLoss, "rope factor: expected at least 1");
  GgufWriter w = base("qwen3").string("qwen3.rope.scaling.type", "yarn").f32("qwen3.rope.scaling.factor", 4.0f);
  refused(w.f32("qwen3.rope.scaling.attn_factor", 0.5f), StatusCode::kUnsupported, "attention factor");
}

TEST(GgufConfig, FrequencyFactors) {
  const auto factors = [](const std::vector<float>& values) {
    std::string bytes;
    for (const float v : values) testing::put(bytes, v);
    return bytes;
  };
  const std::vector<float> good = {1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8};
  const ModelConfig c = parsed(base("llama").tensor("rope_freqs.weight", {12}, 0, factors(good)));
  EXPECT_EQ(c.rope.type, RopeType::kDefault);
  EXPECT_EQ(c.rope.freq_factors, good);
  refused(base("llama").tensor("rope_freqs.weight", {11}, 0, factors(good)), StatusCode::kDataLoss,
          "rope_freqs.weight: expected f32 [12], found f32 [11]");
  std::vector<float> zero = good;
  zero[3] = 0.0f;
  refused(base("llama").tensor("rope_freqs.weight", {12}, 0, factors(zero)), StatusCode::kDataLoss,
          "rope_freqs.weight: expected numbers above 0, found 0");
}

TEST(GgufConfig, LongRope) {
  const auto table = [](float value) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) testing::put(bytes, value);
    return bytes;
  };
  const auto longrope = [] {
    GgufWriter w = base("llama");
    w.string("llama.rope.scaling.type", "longrope").u32("llama.rope.scaling.original_context_length", 64);
    return w;
  };
  GgufWriter w = longrope();
  w.tensor("rope_factors_short.weight", {12}, 0, table(1.5f)).tensor("rope_factors_long.weight", {12}, 0, table(3.0f));
  w.f32("llama.rope.scaling.attn_factor", 1.25f);
  const ModelConfig c = parsed(w);
  EXPECT_EQ(c.rope.type, RopeType::kLongRope);
  EXPECT_EQ(c.rope.original_max_position, 64);
  EXPECT_EQ(c.rope.short_factors, std::vector<float>(12, 1.5f));
  EXPECT_EQ(c.rope.long_factors, std::vector<float>(12, 3.0f));
  EXPECT_EQ(c.rope.attention_factor, 1.25);
  refused(longrope().tensor("rope_factors_short.weight", {12}, 0, table(1.0f)), StatusCode::kDataLoss,
          "tensor rope_factors_long.weight is missing");
  refused(longrope().tensor("rope_freqs.weight", {12}, 0, table(1.0f)), StatusCode::kUnsupported,
          "rope_freqs.weight beside longrope");
  refused(longrope().tensor("rope_factors_short.weight", {12}, 0, table(-1.0f)), StatusCode::kDataLoss,
          "rope_factors_short.weight: expected numbers above 0, found -1");
}

TEST(GgufConfig, WrongValuesAreRefused) {
  const auto damaged = [](const GgufWriter& w, const std::string& part) { refused(w, StatusCode::kDataLoss, part); };
  const auto unsupported = [](const GgufWriter& w, const std::string& part) {
    refused(w, StatusCode::kUnsupported, part);
  };
  damaged(GgufWriter().u32("x", 1), "general.architecture: expected a string, found none");
  damaged(GgufWriter().u32("general.architecture", 1), "general.architecture: expected a string");
  unsupported(GgufWriter().string("general.architecture", "gemma3"),
              "general.architecture: \"gemma3\" is not supported (supported: qwen3, qwen2, llama)");
  damaged(GgufWriter().string("general.architecture", "llama"), "llama.block_count: expected an integer, found none");
  unsupported(GgufWriter().string("general.architecture", "llama").string("llama.block_count", "2"),
              "llama.block_count: expected an integer, found another type");
  damaged(base("qwen3").u32("qwen3.attention.key_length", 0), "key_length: expected 1..2^31-1, found 0");
  unsupported(base("qwen3").u32("qwen3.attention.key_length", 64).u32("qwen3.attention.value_length", 32),
              "value_length 32 differs from key_length 64");
  unsupported(base("llama").u32("llama.expert_count", 8), "mixture-of-experts");
  unsupported(base("llama").u32("llama.rope.dimension_count", 12), "dimension_count: expected the head's 24, found 12");
  unsupported(base("llama").u32("general.quantization_version", 1), "quantization_version: expected 2, found 1");
  damaged(base("llama").f32("llama.rope.freq_base", -1.0f), "rope_theta");
  damaged(base("llama").f32("llama.rope.freq_base", std::numeric_limits<float>::quiet_NaN()), "rope_theta");
  damaged(base("llama").key<int32_t>("tokenizer.ggml.eos_token_id", 5, -1), "eos_token_id: expected a token id");
}

TEST(GgufConfig, WrongSizesAreRefused) {
  const auto model = [](uint32_t layers, uint32_t heads, uint32_t kv_heads, float eps) {
    GgufWriter w;
    w.string("general.architecture", "llama").u32("llama.block_count", layers).u32("llama.embedding_length", 96);
    w.u32("llama.feed_forward_length", 192).u32("llama.attention.head_count", heads);
    w.u32("llama.attention.head_count_kv", kv_heads).u32("llama.context_length", 512);
    return w.f32("llama.attention.layer_norm_rms_epsilon", eps);
  };
  const std::string data(size_t{4} * 96, '\0');
  const auto with_embedding = [&](GgufWriter w) { return w.tensor("token_embd.weight", {96, 1}, 0, data); };
  EXPECT_EQ(parsed(with_embedding(model(2, 4, 2, 1e-5f))).vocab_size, 1);
  refused(model(2, 4, 2, 1e-5f), StatusCode::kDataLoss,
          "tensor token_embd.weight is missing (the file holds no tensors");
  refused(model(2, 4, 2, 1e-5f).tensor("token_embd.weight", {96}, 0, data), StatusCode::kDataLoss,
          "token_embd.weight: expected 2 dimensions, found 1");
  refused(with_embedding(model(0, 4, 2, 1e-5f)), StatusCode::kDataLoss,
          "num_hidden_layers: expected 1..2^31-1, found 0");
  refused(with_embedding(model(2, 0, 2, 1e-5f)), StatusCode::kDataLoss, "num_attention_heads: expected");
  refused(with_embedding(model(2, 4, 0, 1e-5f)), StatusCode::kDataLoss, "num_key_value_heads: expected");
  refused(with_embedding(model(2, 4, 3, 1e-5f)), StatusCode::kDataLoss, "is no multiple of num_key_value_heads 3");
  refused(with_embedding(model(2, 5, 5, 1e-5f)), StatusCode::kDataLoss, "hidden_size 96 is no multiple of");
  refused(with_embedding(model(~0u, 4, 2, 1e-5f)), StatusCode::kDataLoss, "found 4294967295");
  for (const float eps :
       {-1e-5f, 0.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    refused(with_embedding(model(2, 4, 2, eps)), StatusCode::kDataLoss, "rms_norm_eps: expected a number above 0");
  }
}

TEST(GgufConfig, TheDefaultModel) {
  if (!std::filesystem::exists(LOCKSTEP_SMOLLM2_GGUF)) GTEST_SKIP() << "./dev setup fetches the default model";
  const auto file = GgufFile::open(LOCKSTEP_SMOLLM2_GGUF);
  ASSERT_TRUE(file.has_value()) << file.error().to_string();
  const auto config = model_config_from_gguf(**file);
  ASSERT_TRUE(config.has_value()) << config.error().to_string();
  EXPECT_EQ(config->architecture, Architecture::kLlama);
  EXPECT_EQ(config->vocab_size, 49152);
  EXPECT_EQ(config->hidden_size, 576);
  EXPECT_EQ(config->intermediate_size, 1536);
  EXPECT_EQ(config->num_layers, 30);
  EXPECT_EQ(config->num_heads, 9);
  EXPECT_EQ(config->num_kv_heads, 3);
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->max_position, 8192);
  EXPECT_EQ(config->rope.theta, 100000.0);
  EXPECT_EQ(config->rope.type, RopeType::kDefault);
  EXPECT_TRUE(config->tie_word_embeddings);
  EXPECT_EQ(config->bos_token_id, 1);
  EXPECT_THAT(config->eos_token_ids, ElementsAre(2));
}

}  // namespace
}  // namespace lockstep::files
