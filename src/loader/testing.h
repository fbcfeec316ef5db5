// SPDX-License-Identifier: Apache-2.0
// For tests: a checkpoint in memory, and random models of every stored type.
#pragma once

#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/half.h"
#include "loader/spec.h"

namespace lockstep::loader::testing {

class MemoryCheckpoint final : public Checkpoint {
 public:
  explicit MemoryCheckpoint(ModelConfig config) : config_(std::move(config)) {}

  void add(const std::string& name, DType dtype, std::vector<int64_t> shape, std::vector<std::byte> bytes) {
    storage_.push_back(std::move(bytes));
    files::TensorInfo info;
    info.name = name;
    info.file = "memory.safetensors";
    info.dtype = dtype;
    info.shape = std::move(shape);
    info.data = storage_.back();
    tensors_.push_back(std::move(info));
  }
  void add_f32(const std::string& name, std::vector<int64_t> shape, const std::vector<float>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    add(name, DType::kF32, std::move(shape), std::move(bytes));
  }
  void remove(const std::string& name) {
    std::erase_if(tensors_, [&](const files::TensorInfo& tensor) { return tensor.name == name; });
  }
  files::TensorInfo& at(const std::string& name) { return *const_cast<files::TensorInfo*>(find(name)); }

  const ModelConfig& config() const override { return config_; }
  const files::GenerationConfig& generation_config() const override { return generation_config_; }
  const std::string& path() const override { return path_; }
  const std::vector<files::TensorInfo>& tensors() const override { return tensors_; }
  const files::TensorInfo* find(std::string_view name) const override {
    for (const files::TensorInfo& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }
  std::shared_ptr<const files::GgufFile> gguf() const override { return nullptr; }
  void release(const files::TensorInfo&) const override { ++releases; }

  mutable int releases = 0;

 private:
  ModelConfig config_;
  files::GenerationConfig generation_config_;
  std::string path_ = "memory";
  std::deque<std::vector<std::byte>> storage_;
  std::vector<files::TensorInfo> tensors_;
};

/// A small config; num_heads 4, kv 2, head_dim 8 (not hidden / heads).
inline ModelConfig small_config(Architecture architecture) {
  ModelConfig c;
  c.architecture = architecture;
  c.source = "memory";
  c.vocab_size = 83;
  c.hidden_size = 64;
  c.intermediate_size = 96;
  c.num_layers = 2;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.head_dim = 8;
  c.max_position = 512;
  c.qk_norm = architecture == Architecture::kQwen3;
  c.attention_bias = architecture == Architecture::kQwen2;
  c.tie_word_embeddings = true;
  c.dtype = "bfloat16";
  return c;
}

/// Of a block type: where its f16 scale and minimum lie (m = d: none), the rms of d times random integer scales and
/// codes for d = 1, and the minimum that centres them.
struct BlockShape {
  size_t d, m;
  float levels;
  float m_per_d = 0.0f;
};
inline BlockShape block_shape(DType dtype) {
  switch (dtype) {
    case DType::kQ8_0:
      return {0, 0, 74.0f};
    case DType::kQ4_1:
      return {0, 2, 4.6f, -8.0f};
    case DType::kQ5_0:
      return {0, 0, 9.2f};
    case DType::kQ5_1:
      return {0, 2, 9.2f, -16.0f};
    case DType::kQ2_K:
      return {80, 82, 12.0f, 1.5f};
    case DType::kQ3_K:
      return {108, 108, 42.0f};
    case DType::kQ4_K:
      return {0, 2, 200.0f, 7.5f};
    case DType::kQ5_K:
      return {0, 2, 400.0f, 15.5f};
    case DType::kQ6_K:
      return {208, 208, 1360.0f};
    case DType::kIQ4_NL:
      return {0, 0, 71.0f};
    case DType::kIQ4_XS:
      return {0, 0, 1300.0f};
    default:  // kQ4_0
      return {0, 0, 4.6f};
  }
}

/// One random matrix of `dtype` with values of about `scale`; any finite content is valid. Block types get random
/// codes.
inline std::vector<std::byte> random_bytes(DType dtype, int64_t elements, float scale, std::mt19937& random) {
  std::vector<std::byte> out(static_cast<size_t>(*dtype_bytes(dtype, elements)));
  std::normal_distribution<float> normal(0.0f, scale);
  const auto put16 = [&](size_t at, uint16_t bits) { std::memcpy(out.data() + at, &bits, 2); };
  if (dtype_info(dtype).block_elements == 1) {
    const auto size = static_cast<size_t>(dtype_info(dtype).block_bytes);
    for (size_t at = 0; at < out.size(); at += size) {
      const float x = normal(random);
      if (dtype == DType::kF32) std::memcpy(out.data() + at, &x, 4);
      if (dtype == DType::kF16) put16(at, f32_to_f16(x));
      if (dtype == DType::kBF16) put16(at, f32_to_bf16(x));
    }
    return out;
  }
  for (std::byte& b : out) b = static_cast<std::byte>(random() & 0xff);
  const auto block = static_cast<size_t>(dtype_info(dtype).block_bytes);
  for (size_t at = 0; at < out.size(); at += block) {
    const BlockShape shape = block_shape(dtype);
    put16(at + shape.d, f32_to_f16(scale / shape.levels * (0.5f + static_cast<float>(random() % 1000) / 1000.0f)));
    if (shape.m != shape.d) put16(at + shape.m, f32_to_f16(shape.m_per_d * scale / shape.levels));
  }
  return out;
}

/// All tensors of a model with random weights; matrices in `dtype`, the embedding, v and down projections in `other`
/// (dims must be whole blocks), the rest f32.
inline std::shared_ptr<MemoryCheckpoint> random_checkpoint(const ModelConfig& config, const DecoderSpec& spec,
                                                           DType dtype, uint32_t seed,
                                                           std::optional<DType> other = std::nullopt) {
  auto out = std::make_shared<MemoryCheckpoint>(config);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  for (const TensorSpec& tensor : required_tensors(config, spec, "model.")) {
    if (tensor.shape.size() == 2) {
      const bool is_other = tensor.name.ends_with("embed_tokens.weight") || tensor.name.ends_with("v_proj.weight") ||
                            tensor.name.ends_with("down_proj.weight");
      const DType type = is_other ? other.value_or(dtype) : dtype;
      out->add(tensor.name, type, tensor.shape, random_bytes(type, tensor.shape[0] * tensor.shape[1], 0.15f, random));
      continue;
    }
    std::vector<float> values(static_cast<size_t>(tensor.shape[0]));
    const bool bias = tensor.name.ends_with("bias");
    for (float& x : values) x = (bias ? 0.0f : 1.0f) + 0.2f * normal(random);
    out->add_f32(tensor.name, tensor.shape, values);
  }
  return out;
}

}  // namespace lockstep::loader::testing
