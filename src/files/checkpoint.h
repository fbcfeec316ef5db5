// SPDX-License-Identifier: Apache-2.0
// A model's tensors under their Hugging Face names, whatever container they lie in.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "files/gguf.h"
#include "files/model_config.h"
#include "files/row_source.h"
#include "tensor/dtype.h"

namespace lockstep::files {

/// A tensor as it lies in the mapped file, or a matrix that is made from several of them.
struct TensorInfo {
  std::string name = "";  ///< Hugging Face name, e.g. "model.layers.0.self_attn.q_proj.weight"
  std::string file = "";  ///< path of the file that holds it
  DType dtype = DType::kF32;
  std::vector<int64_t> shape = {};       ///< row-major, [out, in] for matrices
  std::span<const std::byte> data = {};  ///< not necessarily aligned for its type
  /// Non-zero for q_proj and k_proj of llama-architecture GGUF files: rows of each of this many heads are stored in
  /// interleaved rope order. Stored row h*d + 2*i + j holds row h*d + j*(d/2) + i of the Hugging Face layout (d =
  /// rows/heads).
  int64_t interleaved_heads = 0;
  /// Set if the rows are made from quantised tensors; `data` is empty then.
  std::shared_ptr<const RowSource> rows = nullptr;

  /// Bytes of the file that it takes.
  int64_t stored_bytes() const { return rows ? rows->stored_bytes() : static_cast<int64_t>(data.size()); }
};

/// A directory (config.json, model.safetensors or shards with an index, generation_config.json) or one .gguf file.
/// Immutable, thread-safe.
class Checkpoint {
 public:
  /// Opens and checks all headers; reads no weights. Errors name file, tensor, expected and found.
  static Expected<std::shared_ptr<const Checkpoint>> open(const std::filesystem::path& path);
  virtual ~Checkpoint() = default;

  virtual const ModelConfig& config() const = 0;
  virtual const GenerationConfig& generation_config() const = 0;
  virtual const std::string& path() const = 0;
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  /// nullptr if there is no tensor of that name.
  virtual const TensorInfo* find(std::string_view name) const = 0;
  /// The GGUF file, or nullptr for a safetensors directory.
  virtual std::shared_ptr<const GgufFile> gguf() const = 0;
  /// Tells the kernel that the pages of this tensor are not needed any more (they are file-backed; re-read on demand).
  virtual void release(const TensorInfo& tensor) const = 0;
};

}  // namespace lockstep::files
