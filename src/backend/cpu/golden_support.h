// SPDX-License-Identifier: Apache-2.0
// For the tests of this room: golden files, and a warmed-up CPU backend.
#pragma once

#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/testing.h"
#include "gtest/gtest.h"

namespace lockstep::backend::testing {

inline std::string golden_path(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/golden/" + name;
}

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  return nlohmann::json::parse(in);
}

/// A one-dimensional float32 .npy file (format 1.0: magic, header length at byte 8, header, data).
inline std::vector<float> read_npy(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  uint16_t header = 0;
  std::memcpy(&header, bytes.data() + 8, sizeof header);
  const size_t start = 10u + header;
  EXPECT_NE(bytes.substr(10, header).find("'<f4'"), std::string::npos) << path;
  std::vector<float> out((bytes.size() - start) / sizeof(float));
  std::memcpy(out.data(), bytes.data() + start, out.size() * sizeof(float));
  return out;
}

/// The instruction sets that this machine has, "ref" first.
inline std::vector<std::string> available_isas() {
  std::vector<std::string> out;
  for (const char* name : {"ref", "avx2", "avx512", "avx512vnni", "avx512bf16"}) {
    if (kernels::select_kernels(name)) out.emplace_back(name);
  }
  return out;
}

/// A backend with pages, and a driver over it.
struct Engine {
  std::unique_ptr<CpuBackend> backend;
  std::unique_ptr<StepDriver> driver;
  StepShape shape;
  int64_t num_blocks = 0;

  GenerateOptions options() const {
    GenerateOptions out;
    out.block_size = shape.block_size;
    out.num_blocks = num_blocks;
    return out;
  }
};

inline StepShape test_shape(DType kv_dtype) {
  StepShape shape;
  shape.max_num_seqs = 16;
  shape.max_num_batched_tokens = 512;
  shape.kv_dtype = kv_dtype;
  return shape;
}

/// Aborts the test on an error.
inline Engine make_engine(std::shared_ptr<const loader::Checkpoint> checkpoint, const CpuBackendOptions& options,
                          const StepShape& shape, int64_t num_blocks) {
  Engine out;
  auto backend = CpuBackend::load(std::move(checkpoint), options);
  EXPECT_TRUE(backend) << backend.error().to_string();
  out.backend = std::move(*backend);
  const Status warm = out.backend->warm_up(shape);
  EXPECT_TRUE(warm.ok()) << warm.to_string();
  const Capabilities caps = out.backend->capabilities();
  step::KvGeometry kv{.num_layers = caps.num_layers,
                      .num_kv_heads = caps.num_kv_heads,
                      .head_dim = caps.head_dim,
                      .block_size = shape.block_size,
                      .num_blocks = num_blocks,
                      .dtype = shape.kv_dtype};
  const Status allocated = out.backend->allocate_kv(kv);
  EXPECT_TRUE(allocated.ok()) << allocated.to_string();
  out.driver = std::make_unique<StepDriver>(*out.backend, shape);
  out.shape = shape;
  out.num_blocks = num_blocks;
  return out;
}

inline std::shared_ptr<const loader::Checkpoint> open_golden(const std::string& model) {
  auto checkpoint = loader::Checkpoint::open(golden_path(model));
  EXPECT_TRUE(checkpoint) << checkpoint.error().to_string();
  return *checkpoint;
}

}  // namespace lockstep::backend::testing
