// SPDX-License-Identifier: Apache-2.0
#include "loader/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "files/dequantize.h"
#include "loader/testing.h"

namespace lockstep::loader {
namespace {

using ::testing::HasSubstr;
using testing::MemoryCheckpoint;
using testing::random_checkpoint;
using testing::small_config;

class LoadTest : public ::testing::Test {
 protected:
  Expected<DecoderWeights> load(const Checkpoint& checkpoint, WeightsMode mode = WeightsMode::kNative) {
    return load_decoder(ctx_, checkpoint, spec_, mode, progress_);
  }
  std::shared_ptr<MemoryCheckpoint> model(DType dtype = DType::kBF16) {
    return random_checkpoint(config_, spec_, dtype, 1);
  }
  void expect_error(const Checkpoint& checkpoint, std::initializer_list<const char*> parts) {
    const auto loaded = load(checkpoint);
    ASSERT_FALSE(loaded) << "expected an error about " << *parts.begin();
    for (const char* part : parts) EXPECT_THAT(loaded.error().message(), HasSubstr(part));
  }

  ModelConfig config_ = small_config(Architecture::kQwen3);
  DecoderSpec spec_ = {.qkv_bias = false, .o_bias = false, .qk_norm = true, .tied_head = true};
  cpu::ThreadPool pool_{2, /*pin=*/false};
  ops::Context ctx_{*kernels::select_kernels("ref"), &pool_};
  Progress progress_;
};

std::vector<float> row(const ops::Matrix& matrix, int64_t index) {
  std::vector<float> out(static_cast<size_t>(matrix.k()));
  matrix.unpack_row(index, out.data());
  return out;
}

/// Row `index` of a bf16 tensor as it lies in the file.
std::vector<float> source_row(const files::TensorInfo& tensor, int64_t index) {
  const int64_t k = tensor.shape[1];
  std::vector<float> out;
  for (int64_t i = 0; i < k; ++i) {
    uint16_t bits;
    std::memcpy(&bits, tensor.data.data() + (index * k + i) * 2, 2);
    out.push_back(bf16_to_f32(bits));
  }
  return out;
}

TEST_F(LoadTest, StacksProjectionsInOrder) {
  const auto checkpoint = model();
  const auto weights = load(*checkpoint);
  ASSERT_TRUE(weights) << weights.error().to_string();
  ASSERT_EQ(weights->layers.size(), 2u);
  const LayerWeights& layer = weights->layers[1];
  ASSERT_EQ(layer.qkv.parts.size(), 1u);
  EXPECT_EQ(layer.qkv.n, 32 + 16 + 16);
  EXPECT_EQ(layer.qkv.k, 64);
  const std::string attention = "model.layers.1.self_attn.";
  const ops::Matrix& qkv = layer.qkv.parts[0].matrix;
  EXPECT_EQ(row(qkv, 5), source_row(checkpoint->at(attention + "q_proj.weight"), 5));
  EXPECT_EQ(row(qkv, 32 + 3), source_row(checkpoint->at(attention + "k_proj.weight"), 3));
  EXPECT_EQ(row(qkv, 48 + 15), source_row(checkpoint->at(attention + "v_proj.weight"), 15));
  const ops::Matrix& gate_up = layer.gate_up.parts[0].matrix;
  EXPECT_EQ(row(gate_up, 95), source_row(checkpoint->at("model.layers.1.mlp.gate_proj.weight"), 95));
  EXPECT_EQ(row(gate_up, 96), source_row(checkpoint->at("model.layers.1.mlp.up_proj.weight"), 0));
  EXPECT_EQ(layer.q_norm.size, 8);
  EXPECT_TRUE(weights->lm_head.empty());
  EXPECT_EQ(&weights->head(), &weights->embedding);
  EXPECT_GT(weights->bytes(), 0);
  EXPECT_EQ(checkpoint->releases, static_cast<int>(checkpoint->tensors().size()));
}

TEST_F(LoadTest, UndoesInterleavedRows) {
  auto checkpoint = model();
  files::TensorInfo& q = checkpoint->at("model.layers.0.self_attn.q_proj.weight");
  q.interleaved_heads = 4;
  const auto weights = load(*checkpoint);
  ASSERT_TRUE(weights);
  const ops::Matrix& qkv = weights->layers[0].qkv.parts[0].matrix;
  // Head 2 (rows 16..23, dim 8): row 16 + j * 4 + i lies at 16 + 2 * i + j.
  EXPECT_EQ(row(qkv, 16), source_row(q, 16));
  EXPECT_EQ(row(qkv, 17), source_row(q, 18));
  EXPECT_EQ(row(qkv, 20), source_row(q, 17));
  EXPECT_EQ(row(qkv, 23), source_row(q, 23));
}

TEST_F(LoadTest, KeepsDifferentFormatsApart) {
  auto checkpoint = model();
  const std::string name = "model.layers.0.self_attn.k_proj.weight";
  std::mt19937 random(3);
  checkpoint->remove(name);
  checkpoint->add(name, DType::kQ8_0, {16, 64}, testing::random_bytes(DType::kQ8_0, 16 * 64, 0.1f, random));
  const auto native = load(*checkpoint);
  ASSERT_TRUE(native) << native.error().to_string();
  const Projection& qkv = native->layers[0].qkv;
  ASSERT_EQ(qkv.parts.size(), 3u);
  EXPECT_EQ(qkv.parts[1].matrix.format(), kernels::WeightFormat::kQ8G32);
  EXPECT_EQ(qkv.parts[1].first, 32);
  EXPECT_EQ(qkv.parts[2].first, 48);
  EXPECT_EQ(qkv.n, 64);
  const auto f32 = load(*checkpoint, WeightsMode::kF32);
  ASSERT_TRUE(f32) << f32.error().to_string();
  ASSERT_EQ(f32->layers[0].qkv.parts.size(), 1u);
  EXPECT_EQ(f32->embedding.format(), kernels::WeightFormat::kF32);
  EXPECT_EQ(row(f32->layers[0].qkv.parts[0].matrix, 32), row(qkv.parts[1].matrix, 0));
}

TEST_F(LoadTest, RunsBlocksOfGgufAsStoredAndRefusesInfiniteScales) {
  auto checkpoint = model();
  const std::string name = "model.layers.0.self_attn.k_proj.weight";
  std::mt19937 random(5);
  for (const DType dtype : {DType::kQ5_0, DType::kQ5_1, DType::kIQ4_NL}) {
    checkpoint->remove(name);
    checkpoint->add(name, dtype, {16, 64}, testing::random_bytes(dtype, 16 * 64, 0.1f, random));
    const auto native = load(*checkpoint);
    ASSERT_TRUE(native) << native.error().to_string();
    const ops::Matrix& k = native->layers[0].qkv.parts.at(1).matrix;
    EXPECT_EQ(k.format(), *ops::native_format(dtype));
    std::vector<float> stored(16 * 64);
    ASSERT_TRUE(files::dequantize(dtype, checkpoint->at(name).data, stored).ok());
    EXPECT_EQ(row(k, 7), std::vector<float>(stored.begin() + 7 * 64, stored.begin() + 8 * 64));
    const auto f32 = load(*checkpoint, WeightsMode::kF32);
    ASSERT_TRUE(f32) << f32.error().to_string();
    EXPECT_EQ(row(f32->layers[0].qkv.parts[0].matrix, 32 + 7), row(k, 7));
  }
  std::vector<std::byte> infinite = testing::random_bytes(DType::kQ5_1, 16 * 64, 0.1f, random);
  infinite[24 * 5 + 2] = std::byte{0};
  infinite[24 * 5 + 3] = std::byte{0x7c};
  checkpoint->remove(name);
  checkpoint->add(name, DType::kQ5_1, {16, 64}, infinite);
  expect_error(*checkpoint, {"memory", name.c_str(), "not finite"});
}

TEST_F(LoadTest, TiesTheHeadAsTheConfigSays) {  // case 35
  auto checkpoint = model();
  std::mt19937 random(4);
  checkpoint->add("lm_head.weight", DType::kBF16, {83, 64}, testing::random_bytes(DType::kBF16, 83 * 64, 0.1f, random));
  const auto tied = load(*checkpoint);
  ASSERT_TRUE(tied);
  EXPECT_EQ(row(tied->head(), 7), source_row(checkpoint->at("model.embed_tokens.weight"), 7));
  spec_.tied_head = false;
  const auto untied = load(*checkpoint);
  ASSERT_TRUE(untied);
  EXPECT_EQ(row(untied->head(), 7), source_row(checkpoint->at("lm_head.weight"), 7));
  EXPECT_EQ(row(untied->embedding, 7), source_row(checkpoint->at("model.embed_tokens.weight"), 7));
  checkpoint->remove("lm_head.weight");
  expect_error(*checkpoint, {"memory", "lm_head.weight", "missing", "[83, 64]"});
}

TEST_F(LoadTest, NamesWhatIsWrong) {
  const std::string q = "model.layers.1.self_attn.q_proj.weight";
  auto missing = model();
  missing->remove(q);
  expect_error(*missing, {q.c_str(), "missing", "[32, 64]"});
  auto shape = model();
  shape->at(q).shape = {64, 32};  // case 34: head_dim guessed from hidden / heads gives another shape
  expect_error(*shape, {"memory.safetensors", q.c_str(), "[64, 32]", "expected [32, 64]"});
  auto type = model();
  type->at(q).dtype = DType::kI32;
  expect_error(*type, {q.c_str(), "i32", "expected f32"});
  auto norm = model();
  norm->at("model.norm.weight").dtype = DType::kQ8_0;
  expect_error(*norm, {"model.norm.weight", "q8_0", "expected f32, f16 or bf16"});
  auto bytes = model();
  bytes->at(q).data = bytes->at(q).data.first(10);
  expect_error(*bytes, {q.c_str(), "10 bytes", "expected 4096"});
  auto block = model();
  block->at("model.layers.0.self_attn.o_proj.weight").dtype = DType::kQ4_0;
  block->at("model.layers.0.self_attn.o_proj.weight").shape = {64, 32};
  expect_error(*block, {"o_proj.weight", "bytes", "expected 1152"});
}

TEST_F(LoadTest, RefusesWeightsWithoutAPlace) {
  auto bias = model();
  bias->add_f32("model.layers.0.self_attn.q_proj.bias", {32}, std::vector<float>(32));
  expect_error(*bias, {"model.layers.0.self_attn.q_proj.bias", "no place", "qwen3"});
  const auto with_norms = model();
  spec_.qk_norm = false;
  expect_error(*with_norms, {"q_norm.weight", "no place"});
}

TEST_F(LoadTest, IgnoresBuffersAndForeignTensors) {
  auto extra = model();
  extra->add_f32("model.layers.0.self_attn.rotary_emb.inv_freq", {4}, std::vector<float>(4));
  extra->add_f32("score.weight", {2}, std::vector<float>(2));
  EXPECT_TRUE(load(*extra));
}

TEST_F(LoadTest, LoadsEmbeddingModelsWithoutPrefix) {
  auto plain = model();
  auto bare = std::make_shared<MemoryCheckpoint>(config_);
  for (const files::TensorInfo& tensor : plain->tensors()) {
    bare->add(tensor.name.substr(std::string("model.").size()), tensor.dtype, tensor.shape,
              {tensor.data.begin(), tensor.data.end()});
  }
  const auto weights = load(*bare);
  ASSERT_TRUE(weights) << weights.error().to_string();
  EXPECT_EQ(row(weights->embedding, 3), source_row(plain->at("model.embed_tokens.weight"), 3));
}

TEST_F(LoadTest, ReportsProgressUpToTheTotal) {
  const auto checkpoint = model();
  int64_t last = -1, total = 0;
  progress_ = [&](int64_t done, int64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
  };
  ASSERT_TRUE(load(*checkpoint));
  int64_t expected = 0;
  for (const files::TensorInfo& tensor : checkpoint->tensors()) expected += static_cast<int64_t>(tensor.data.size());
  EXPECT_EQ(total, expected);
  EXPECT_EQ(last, expected);
}

TEST_F(LoadTest, QuantisesWhileLoading) {
  const auto checkpoint = model();
  const std::vector<float> stored = source_row(checkpoint->at("model.layers.0.mlp.down_proj.weight"), 5);
  struct Case {
    WeightsMode mode;
    kernels::WeightFormat layers, vocabulary;
    float bound;
  };
  for (const Case& one :
       {Case{WeightsMode::kW8A16, kernels::WeightFormat::kW8A16, kernels::WeightFormat::kW8A16, 0.01f},
        Case{WeightsMode::kW8A8, kernels::WeightFormat::kW8A8, kernels::WeightFormat::kW8A8, 0.01f},
        Case{WeightsMode::kW4A8, kernels::WeightFormat::kQ4_1, kernels::WeightFormat::kW8A8, 0.1f}}) {
    const auto weights = load(*checkpoint, one.mode);
    ASSERT_TRUE(weights) << weights.error().to_string();
    EXPECT_EQ(weights->embedding.format(), one.vocabulary);
    const ops::Matrix& down = weights->layers[0].down.parts[0].matrix;
    EXPECT_EQ(down.format(), one.layers);
    const std::vector<float> ours = row(down, 5);
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], stored[i], one.bound);
  }
}

TEST_F(LoadTest, RoundsQuantisedModelsAgainOnlyToEightBits) {
  auto checkpoint = model();
  const std::string name = "model.layers.0.self_attn.k_proj.weight";
  std::mt19937 random(3);
  checkpoint->remove(name);
  checkpoint->add(name, DType::kQ8_0, {16, 64}, testing::random_bytes(DType::kQ8_0, 16 * 64, 0.1f, random));
  EXPECT_TRUE(load(*checkpoint, WeightsMode::kW8A16));
  EXPECT_TRUE(load(*checkpoint, WeightsMode::kW8A8));
  const auto refused = load(*checkpoint, WeightsMode::kW4A8);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kUnsupported);
  for (const char* word : {"memory.safetensors", name.c_str(), "q8_0", "w4a8"})
    EXPECT_NE(refused.error().message().find(word), std::string::npos) << refused.error().message();
  EXPECT_EQ(decoder_bytes(*checkpoint, spec_, WeightsMode::kW4A8).error().code(), StatusCode::kUnsupported);
}

TEST_F(LoadTest, PlansTheBytesOfMixedModels) {
  auto checkpoint = model();
  std::mt19937 random(3);
  for (const char* name : {"model.layers.0.self_attn.k_proj.weight", "model.layers.1.self_attn.v_proj.weight"}) {
    checkpoint->remove(name);
    checkpoint->add(name, DType::kQ8_0, {16, 64}, testing::random_bytes(DType::kQ8_0, 16 * 64, 0.1f, random));
  }
  for (const WeightsMode mode : {WeightsMode::kNative, WeightsMode::kBF16, WeightsMode::kW8A8}) {
    const auto weights = load(*checkpoint, mode);
    const auto planned = decoder_bytes(*checkpoint, spec_, mode);
    ASSERT_TRUE(weights && planned);
    EXPECT_EQ(*planned, weights->bytes()) << to_string(mode);
  }
}

TEST_F(LoadTest, PlansTheBytesThatItTakes) {
  for (const WeightsMode mode : {WeightsMode::kNative, WeightsMode::kBF16, WeightsMode::kF32, WeightsMode::kBF16Dot,
                                 WeightsMode::kW8A16, WeightsMode::kW8A8, WeightsMode::kW4A8}) {
    const auto weights = load(*model(), mode);
    ASSERT_TRUE(weights);
    EXPECT_EQ(decoder_bytes(config_, spec_, mode, DType::kBF16), weights->bytes()) << to_string(mode);
  }
}

}  // namespace
}  // namespace lockstep::loader
