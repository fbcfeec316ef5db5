// SPDX-License-Identifier: Apache-2.0
// The safetensors container, by mmap. Format: https://github.com/huggingface/safetensors (README, "Format"):
// u64 header length, JSON header {name: {dtype, shape, data_offsets}}, then the data, without holes. Every field is
// checked.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "files/mapped_file.h"
#include "tensor/dtype.h"

namespace lockstep::files {

struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;       ///< row-major; empty for a scalar; a dimension may be 0
  std::span<const std::byte> data;  ///< not necessarily aligned for its type
};

/// The tensors of a file's bytes, in the order of their data; the spans point into `bytes`. `file` is named in errors
/// (kDataLoss, kUnsupported), with tensor, expected and found.
Expected<std::vector<SafetensorsTensor>> parse_safetensors(std::span<const std::byte> bytes, const std::string& file);

/// An opened file; immutable, thread-safe. The spans live as long as `file`.
struct SafetensorsFile {
  std::shared_ptr<const MappedFile> file;
  std::vector<SafetensorsTensor> tensors;
};
Expected<SafetensorsFile> open_safetensors(const std::filesystem::path& path);

/// model.safetensors.index.json's weight_map: tensor name -> file name, which is a plain name in the index's own
/// folder.
Expected<std::map<std::string, std::string>> load_safetensors_index(const std::filesystem::path& path);

}  // namespace lockstep::files
