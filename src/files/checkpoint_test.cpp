// SPDX-License-Identifier: Apache-2.0
#include "files/checkpoint.h"

#include <cstring>

#include "files/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace lockstep::files {
namespace {

using ::testing::ElementsAre;
using testing::GgufWriter;
using ::testing::HasSubstr;
using testing::safetensors;
using testing::TempDir;

namespace fs = std::filesystem;

constexpr const char* kConfig = R"({"architectures":["LlamaForCausalLM"],"model_type":"llama","vocab_size":2,
  "hidden_size":4,"intermediate_size":8,"num_hidden_layers":1,"num_attention_heads":2,"eos_token_id":1})";

std::string one_tensor(const std::string& name) {
  return safetensors("{\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", "\1\2\3\4");
}

std::shared_ptr<const Checkpoint> opened(const fs::path& path) {
  auto checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.has_value()) << checkpoint.error().to_string();
  return checkpoint.value_or(nullptr);
}

void refused(const fs::path& path, StatusCode code, const std::string& part) {
  const auto checkpoint = Checkpoint::open(path);
  ASSERT_FALSE(checkpoint.has_value()) << "accepted; expected an error with: " << part;
  EXPECT_EQ(checkpoint.error().code(), code) << checkpoint.error().to_string();
  EXPECT_THAT(checkpoint.error().message(), HasSubstr(part));
}

TEST(Checkpoint, GoldenModels) {
  const fs::path golden = fs::path(LOCKSTEP_SOURCE_DIR) / "tests/data/golden";
  struct Case {
    const char* name;
    size_t tensors;
    int64_t q_rows;
    int64_t hidden;
  };
  // Tensors: embedding, norm (and head), and 9 a layer, 11 with q/k norms, 12 with q/k/v biases.
  for (const Case& c : {Case{"tiny-qwen3", 2 + 3 * 11, 128, 64}, Case{"tiny-qwen3-untied", 3 + 2 * 11, 96, 48},
                        Case{"tiny-qwen2", 2 + 3 * 12, 64, 64}, Case{"tiny-llama", 3 + 3 * 9, 96, 96},
                        Case{"tiny-qwen3-yarn", 2 + 3 * 11, 128, 64}}) {
    SCOPED_TRACE(c.name);
    const auto model = opened(golden / c.name);
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->tensors().size(), c.tensors);
    EXPECT_EQ(model->gguf(), nullptr);
    const TensorInfo* q = model->find("model.layers.1.self_attn.q_proj.weight");
    ASSERT_NE(q, nullptr);
    EXPECT_EQ(q->dtype, DType::kBF16);
    EXPECT_THAT(q->shape, ElementsAre(c.q_rows, c.hidden));
    EXPECT_EQ(q->interleaved_heads, 0);
    EXPECT_EQ(static_cast<int64_t>(q->data.size()), 2 * c.q_rows * c.hidden);
    EXPECT_EQ(model->find("lm_head.weight") == nullptr, model->config().tie_word_embeddings);
    EXPECT_EQ(model->find("nothing"), nullptr);
    EXPECT_EQ(model->generation_config().eos_token_ids, model->config().eos_token_ids);
    EXPECT_EQ(model->path(), (golden / c.name).string());
  }
  const auto untied = opened(golden / "tiny-qwen3-untied");
  EXPECT_NE(untied->find("model.embed_tokens.weight")->file, untied->find("lm_head.weight")->file);
}

TEST(Checkpoint, ReleasedTensorsStayReadable) {
  const auto model = opened(fs::path(LOCKSTEP_SOURCE_DIR) / "tests/data/golden/tiny-qwen3");
  const TensorInfo* embedding = model->find("model.embed_tokens.weight");
  const std::vector<std::byte> before(embedding->data.begin(), embedding->data.end());
  model->release(*embedding);
  EXPECT_EQ(std::memcmp(before.data(), embedding->data.data(), before.size()), 0);
}

TEST(Checkpoint, Directories) {
  const TempDir dir;
  refused(dir.path() / "none", StatusCode::kNotFound, "no such file or folder");
  refused("", StatusCode::kNotFound, "no such file or folder");
  refused(dir.path(), StatusCode::kNotFound, "no config.json; expected a Hugging Face model folder");
  const auto gguf = dir.write("x.gguf", "GGUF");
  refused(dir.path(), StatusCode::kNotFound, "to use the GGUF file give its own path: " + gguf.string());
  fs::remove(gguf);
  dir.write("config.json", kConfig);
  refused(dir.path(), StatusCode::kNotFound, "neither model.safetensors nor model.safetensors.index.json is there");
  dir.write("pytorch_model.bin", "x");
  refused(dir.path(), StatusCode::kUnsupported, "pickle format (pytorch_model.bin)");
  refused(dir.path() / "config.json", StatusCode::kInvalidArgument, "expected a model folder, a .gguf file");
  dir.write("model.safetensors", one_tensor("model.norm.weight"));
  const auto model = opened(dir.path());
  ASSERT_NE(model->find("model.norm.weight"), nullptr);
  EXPECT_EQ(model->find("model.norm.weight")->data[2], std::byte{3});
  EXPECT_TRUE(model->generation_config().eos_token_ids.empty());
  EXPECT_EQ(opened(dir.path() / "model.safetensors")->tensors().size(), 1u);
  dir.write("other.safetensors", one_tensor("x"));
  refused(dir.path() / "other.safetensors", StatusCode::kInvalidArgument, "not part of the model in its folder");
  dir.write("generation_config.json", R"({"eos_token_id":9,"top_k":3})");
  EXPECT_THAT(opened(dir.path())->generation_config().eos_token_ids, ElementsAre(9));
  dir.write("generation_config.json", "{");
  refused(dir.path(), StatusCode::kDataLoss, "generation_config.json");
}

TEST(Checkpoint, BaseModelNamesGetTheirPrefix) {
  const TempDir dir;
  dir.write("config.json", kConfig);
  dir.write("model.safetensors", safetensors(R"({"embed_tokens.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                            "layers.0.mlp.up_proj.weight":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                             "ab"));
  const auto model = opened(dir.path());
  EXPECT_NE(model->find("model.embed_tokens.weight"), nullptr);
  EXPECT_NE(model->find("model.layers.0.mlp.up_proj.weight"), nullptr);
  EXPECT_EQ(model->find("embed_tokens.weight"), nullptr);
}

TEST(Checkpoint, Shards) {
  const TempDir dir;
  dir.write("config.json", kConfig);
  const auto index = [&](const std::string& map) {
    dir.write("model.safetensors.index.json", R"({"weight_map":{)" + map + "}}");
  };
  dir.write("1.safetensors", one_tensor("a"));
  dir.write("2.safetensors", one_tensor("b"));
  index(R"("a":"1.safetensors","b":"2.safetensors")");
  const auto model = opened(dir.path());
  EXPECT_EQ(model->find("b")->file, (dir.path() / "2.safetensors").string());
  EXPECT_EQ(opened(dir.path() / "2.safetensors")->tensors().size(), 2u);
  index(R"("a":"1.safetensors","b":"3.safetensors")");
  refused(dir.path(), StatusCode::kNotFound, "shard 3.safetensors is missing");
  index(R"("a":"2.safetensors","b":"2.safetensors")");
  refused(dir.path(), StatusCode::kDataLoss, "tensor a: expected in shard 2.safetensors, found in none");
  index(R"("a":"2.safetensors","b":"1.safetensors")");
  refused(dir.path(), StatusCode::kDataLoss, "tensor a: expected in shard 2.safetensors, found in 1.safetensors");
  index(R"("a":"../1.safetensors")");
  refused(dir.path(), StatusCode::kDataLoss, "file in the same folder");
  dir.write("2.safetensors", one_tensor("a"));
  index(R"("a":"1.safetensors","b":"2.safetensors")");
  refused(dir.path(), StatusCode::kDataLoss, "tensor a is in two shards, 1.safetensors and 2.safetensors");
  dir.write("2.safetensors", "short");
  refused(dir.path(), StatusCode::kDataLoss, "2.safetensors: expected an 8-byte header length");
}

/// Metadata of a model of hidden size 8, 2/1 heads of 4, one layer.
GgufWriter small(const std::string& arch) {
  GgufWriter w;
  w.string("general.architecture", arch).u32(arch + ".block_count", 1).u32(arch + ".embedding_length", 8);
  w.u32(arch + ".feed_forward_length", 16).u32(arch + ".attention.head_count", 2);
  w.u32(arch + ".attention.head_count_kv", 1).u32(arch + ".context_length", 64);
  return w.f32(arch + ".attention.layer_norm_rms_epsilon", 1e-6f);
}
GgufWriter& f32_tensor(GgufWriter& w, const std::string& name, const std::vector<uint64_t>& dims) {
  size_t bytes = 4;
  for (const uint64_t d : dims) bytes *= d;
  return w.tensor(name, dims, 0, std::string(bytes, '\0'));
}
GgufWriter whole(const std::string& arch) {
  GgufWriter w = small(arch);
  f32_tensor(w, "token_embd.weight", {8, 3});
  f32_tensor(w, "output_norm.weight", {8});
  f32_tensor(w, "output.weight", {8, 3});
  f32_tensor(w, "blk.0.attn_norm.weight", {8});
  f32_tensor(w, "blk.0.attn_q.weight", {8, 8});
  f32_tensor(w, "blk.0.attn_k.weight", {8, 4});
  f32_tensor(w, "blk.0.attn_v.weight", {8, 4});
  f32_tensor(w, "blk.0.attn_output.weight", {8, 8});
  f32_tensor(w, "blk.0.ffn_norm.weight", {8});
  f32_tensor(w, "blk.0.ffn_gate.weight", {8, 16});
  f32_tensor(w, "blk.0.ffn_up.weight", {8, 16});
  f32_tensor(w, "blk.0.ffn_down.weight", {16, 8});
  if (arch == "qwen3") {
    f32_tensor(w, "blk.0.attn_q_norm.weight", {4});
    f32_tensor(w, "blk.0.attn_k_norm.weight", {4});
  } else {
    f32_tensor(w, "blk.0.attn_q.bias", {8});
    f32_tensor(w, "blk.0.attn_k.bias", {4});
    f32_tensor(w, "blk.0.attn_v.bias", {4});
  }
  return w;
}

TEST(Checkpoint, GgufNamesAndRowOrder) {
  const TempDir dir;
  for (const std::string arch : {"llama", "qwen2", "qwen3"}) {
    SCOPED_TRACE(arch);
    const auto model = opened(dir.write("m.gguf", whole(arch).bytes()));
    ASSERT_NE(model, nullptr);
    std::vector<std::string> names = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"};
    const std::vector<std::string> in_layer = {"input_layernorm.weight",  "post_attention_layernorm.weight",
                                               "self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                               "self_attn.v_proj.weight", "self_attn.o_proj.weight",
                                               "mlp.gate_proj.weight",    "mlp.up_proj.weight",
                                               "mlp.down_proj.weight"};
    for (const std::string& name : in_layer) names.push_back("model.layers.0." + name);
    const std::vector<std::string> more = arch == "qwen3"
                                              ? std::vector<std::string>{"q_norm.weight", "k_norm.weight"}
                                              : std::vector<std::string>{"q_proj.bias", "k_proj.bias", "v_proj.bias"};
    for (const std::string& name : more) names.push_back("model.layers.0.self_attn." + name);
    EXPECT_EQ(model->tensors().size(), names.size());
    for (const std::string& name : names) EXPECT_NE(model->find(name), nullptr) << name;
    EXPECT_THAT(model->find("model.layers.0.mlp.down_proj.weight")->shape, ElementsAre(8, 16));
    EXPECT_NE(model->gguf(), nullptr);
    EXPECT_FALSE(model->config().tie_word_embeddings);
    for (const TensorInfo& tensor : model->tensors()) {
      const bool q = tensor.name.find("q_proj") != std::string::npos;
      const bool k = tensor.name.find("k_proj") != std::string::npos;
      EXPECT_EQ(tensor.interleaved_heads, arch != "llama" ? 0 : q ? 2 : k ? 1 : 0) << tensor.name;
    }
  }
}

TEST(Checkpoint, GgufTensorsThatDoNotBelong) {
  const TempDir dir;
  for (const char* name : {"blk.1.attn_q.weight", "blk.0.attn_q_norm.weight", "blk.0.ffn_gate_inp.weight",
                           "blk.0.ffn_up.bias", "blk.00.attn_q.weight", "blk.-1.attn_q.weight", "blk..attn_q.weight",
                           "blk.0", "blk.99999999999999999999.attn_q.weight", "output.bias", "model.norm.weight"}) {
    GgufWriter w = whole("llama");
    f32_tensor(w, name, {8});
    refused(dir.write("m.gguf", w.bytes()), StatusCode::kUnsupported,
            fmt::format("tensor {} is not part of a llama model with 1 layers", name));
  }
  GgufWriter w = whole("llama");
  w.tensor("rope_freqs.weight", {2}, 0, std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  f32_tensor(w, "blk.0.attn_rot_embd.weight", {2});
  const auto model = opened(dir.write("m.gguf", w.bytes()));
  EXPECT_THAT(model->config().rope.freq_factors, ElementsAre(1.0f, 2.0f));
  EXPECT_NE(model->find("rope_freqs.weight"), nullptr);
  w = small("llama");
  f32_tensor(w, "token_embd.weight", {8, 3});
  f32_tensor(w, "blk.0.attn_q.weight", {8, 6});
  refused(dir.write("m.gguf", w.bytes()), StatusCode::kDataLoss, "expected 2 heads of 4 rows, found 6 rows");
  refused(dir.write("bad.gguf", "nothing"), StatusCode::kDataLoss, "expected magic number");
}

TEST(Checkpoint, SplitGguf) {
  const TempDir dir;
  const auto part = [](uint16_t number, uint16_t count, int32_t tensors) {
    GgufWriter w = number == 0 ? small("qwen3") : GgufWriter();
    w.key<uint16_t>("split.no", 2, number).key<uint16_t>("split.count", 2, count);
    return w.key<int32_t>("split.tensors.count", 5, tensors);
  };
  // The first part has no tensors, as gguf-split --no-tensor-first-split writes it; the head is in the last one.
  const fs::path first = dir.write("m-00001-of-00003.gguf", part(0, 3, 3).bytes());
  GgufWriter second = part(1, 3, 3);
  f32_tensor(second, "token_embd.weight", {8, 3});
  f32_tensor(second, "output_norm.weight", {8});
  const fs::path second_path = dir.write("m-00002-of-00003.gguf", second.bytes());
  refused(first, StatusCode::kNotFound, "m-00003-of-00003.gguf");
  GgufWriter third = part(2, 3, 3);
  f32_tensor(third, "output.weight", {8, 3});
  const fs::path third_path = dir.write("m-00003-of-00003.gguf", third.bytes());
  const auto model = opened(first);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->config().vocab_size, 3);
  EXPECT_FALSE(model->config().tie_word_embeddings);
  EXPECT_EQ(model->find("lm_head.weight")->file, third_path.string());
  EXPECT_EQ(model->gguf()->path(), first.string());

  refused(second_path, StatusCode::kInvalidArgument,
          "one of 3 parts; give the first one, named ...-00001-of-00003.gguf");
  dir.write("m.gguf", part(0, 3, 3).bytes());
  refused(dir.path() / "m.gguf", StatusCode::kInvalidArgument, "give the first one");
  dir.write("m-00003-of-00003.gguf", second.bytes());
  refused(first, StatusCode::kDataLoss, "expected split.no 2 and split.count 3, found 1 and 3");
  dir.write("m-00003-of-00003.gguf", part(2, 3, 3).bytes());
  refused(first, StatusCode::kDataLoss, "split.tensors.count: expected 3, found 2 tensors in 3 parts");
  GgufWriter twice = part(2, 3, 3);
  f32_tensor(twice, "output_norm.weight", {8});
  dir.write("m-00003-of-00003.gguf", twice.bytes());
  refused(first, StatusCode::kDataLoss, "tensor model.norm.weight occurs twice");
}

TEST(Checkpoint, TheDefaultModel) {
  if (!fs::exists(LOCKSTEP_SMOLLM2_GGUF)) GTEST_SKIP() << "./dev setup fetches the default model";
  const auto model = opened(LOCKSTEP_SMOLLM2_GGUF);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->tensors().size(), 272u);
  const TensorInfo* q = model->find("model.layers.29.self_attn.q_proj.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->dtype, DType::kQ4_1);
  EXPECT_EQ(q->interleaved_heads, 9);
  EXPECT_EQ(model->find("model.layers.0.self_attn.k_proj.weight")->interleaved_heads, 3);
  EXPECT_EQ(model->find("model.layers.0.self_attn.v_proj.weight")->interleaved_heads, 0);
  EXPECT_EQ(model->find("model.embed_tokens.weight")->dtype, DType::kQ8_0);
  EXPECT_THAT(model->find("model.layers.3.mlp.down_proj.weight")->shape, ElementsAre(576, 1536));
  EXPECT_EQ(model->find("lm_head.weight"), nullptr);
}

}  // namespace
}  // namespace lockstep::files
