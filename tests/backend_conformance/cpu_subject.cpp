// SPDX-License-Identifier: Apache-2.0
// The CPU backend under the conformance suite: tiny golden models (bf16) and random ones in every other stored type.
#include "cpu_subject.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "backend/cpu/cpu_backend.h"
#include "loader/testing.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define LOCKSTEP_FORBID(span) ASAN_POISON_MEMORY_REGION((span).data(), (span).size())
#define LOCKSTEP_ALLOW(span) ASAN_UNPOISON_MEMORY_REGION((span).data(), (span).size())
#else
#define LOCKSTEP_FORBID(span) static_cast<void>(span)
#define LOCKSTEP_ALLOW(span) static_cast<void>(span)
#endif

namespace lockstep::conformance {
namespace {

using backend::CpuBackend;

/// The variant that attends over contiguous K/V, with the best instruction set.
constexpr const char* kContiguous = "contiguous";

struct RandomModel {
  const char* name;
  DType dtype;
  loader::Architecture architecture;
  DType other = dtype;  ///< of the embedding, v and down projections, as published mixtures have it
};
constexpr RandomModel kRandomModels[] = {
    {"random-q8_0", DType::kQ8_0, loader::Architecture::kQwen3},
    {"random-q4_0", DType::kQ4_0, loader::Architecture::kQwen2},
    {"random-q4_1", DType::kQ4_1, loader::Architecture::kLlama},
    {"random-q4_k-q6_k", DType::kQ4_K, loader::Architecture::kQwen3, DType::kQ6_K},
    {"random-q5_k-q3_k", DType::kQ5_K, loader::Architecture::kLlama, DType::kQ3_K},
    {"random-q2_k-iq4_xs", DType::kQ2_K, loader::Architecture::kQwen2, DType::kIQ4_XS},
    {"random-q5_0-q5_1", DType::kQ5_0, loader::Architecture::kLlama, DType::kQ5_1},
    {"random-iq4_nl", DType::kIQ4_NL, loader::Architecture::kQwen2},
    {"random-f16", DType::kF16, loader::Architecture::kQwen3},
    {"random-f32", DType::kF32, loader::Architecture::kLlama}};

Expected<std::shared_ptr<const loader::Checkpoint>> open_model(const std::string& name) {
  for (const RandomModel& one : kRandomModels) {
    if (name != one.name) continue;
    loader::ModelConfig config = loader::testing::small_config(one.architecture);
    config.head_dim = 16;  // heads * head_dim is a whole number of blocks
    config.max_position = 2048;
    if (dtype_info(one.dtype).block_elements == 256) {
      config.head_dim = 64;
      config.hidden_size = 256;
      config.intermediate_size = 256;
    }
    return loader::testing::random_checkpoint(config, model::decoder_spec(config), one.dtype, 7, one.other);
  }
  return loader::Checkpoint::open(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/golden/" + name);
}

class CpuSubject final : public Subject {
 public:
  std::vector<std::string> models() const override {
    std::vector<std::string> out = {"tiny-qwen3-untied", "tiny-qwen2", "tiny-llama"};
    for (const RandomModel& one : kRandomModels) out.emplace_back(one.name);
    return out;
  }
  std::vector<std::string> variants() const override {
    std::vector<std::string> out;
    for (const char* isa : {"ref", "avx2", "avx512", "avx512vnni", "avx512bf16"}) {
      if (kernels::select_kernels(isa)) out.emplace_back(isa);
    }
    out.emplace_back(kContiguous);
    return out;
  }

  Expected<std::unique_ptr<backend::Backend>> make(const EngineSetup& setup) override {
    LOCKSTEP_ASSIGN_OR_RETURN(auto checkpoint, open_model(setup.model));
    backend::CpuBackendOptions options;
    options.threads = setup.threads;
    options.pin_threads = false;
    if (setup.variant == kContiguous) {
      options.attention = backend::Attention::kContiguous;
    } else {
      options.isa = setup.variant;
    }
    LOCKSTEP_ASSIGN_OR_RETURN(auto made, CpuBackend::load(std::move(checkpoint), options));
    LOCKSTEP_RETURN_IF_ERROR(made->warm_up(setup.shape));
    const backend::Capabilities caps = made->capabilities();
    LOCKSTEP_RETURN_IF_ERROR(made->allocate_kv({.num_layers = caps.num_layers,
                                                .num_kv_heads = caps.num_kv_heads,
                                                .head_dim = caps.head_dim,
                                                .block_size = setup.shape.block_size,
                                                .num_blocks = setup.num_blocks,
                                                .dtype = setup.shape.kv_dtype}));
    return std::unique_ptr<backend::Backend>(std::move(made));
  }

  void fill(const step::DeviceView& view, uint32_t word) override {
    std::fill_n(static_cast<uint32_t*>(view.backend_address()), view.elements(), word);
  }

  void fill_block(backend::Backend& backend, int64_t block, uint32_t word) override {
    for_each_part(backend, block, [&](std::span<std::byte> part) {
      LOCKSTEP_ALLOW(part);
      std::fill_n(reinterpret_cast<uint32_t*>(part.data()), part.size() / sizeof(uint32_t), word);
    });
  }

  bool block_holds(backend::Backend& backend, int64_t block, uint32_t word) override {
    bool holds = true;
    for_each_part(backend, block, [&](std::span<std::byte> part) {
      LOCKSTEP_ALLOW(part);
      const auto* words = reinterpret_cast<const uint32_t*>(part.data());
      holds =
          holds && std::all_of(words, words + part.size() / sizeof(uint32_t), [&](uint32_t x) { return x == word; });
    });
    return holds;
  }

  void protect_block(backend::Backend& backend, int64_t block) override {
    for_each_part(backend, block, [](std::span<std::byte> part) { LOCKSTEP_FORBID(part); });
  }

 private:
  template <class F>
  static void for_each_part(backend::Backend& backend, int64_t block, F&& f) {
    const auto& pool = dynamic_cast<CpuBackend&>(backend).kv_pool();
    for (int64_t layer = 0; layer < pool.geometry().num_layers; ++layer) {
      f(pool.k_block(layer, block));
      f(pool.v_block(layer, block));
    }
  }
};

}  // namespace

Subject& cpu_subject() {
  static CpuSubject instance;
  return instance;
}

}  // namespace lockstep::conformance
