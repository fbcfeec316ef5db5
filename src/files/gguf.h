// SPDX-License-Identifier: Apache-2.0
// GGUF v2/v3 container, by mmap. Format: the ggml project's docs/gguf.md. Every header field is checked before use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"
#include "tensor/dtype.h"

namespace lockstep::files {

/// A metadata value. Integers of every width become int64_t (a u64 over 2^63-1 is refused when the file is opened).
using GgufValue = std::variant<int64_t, double, bool, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<bool>, std::vector<std::string>>;

struct GgufTensor {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;       ///< row-major order: [out, in] for a matrix (GGUF stores it reversed)
  std::span<const std::byte> data;  ///< in the mapped file; valid as long as the GgufFile lives
};

/// An opened file. Immutable after open(), so safe to read from many threads.
class GgufFile final {
 public:
  /// Maps the file and parses the header. Errors (kDataLoss, kUnsupported, kNotFound) name file, field, expected and
  /// found.
  static Expected<std::shared_ptr<const GgufFile>> open(const std::filesystem::path& path);
  ~GgufFile();
  GgufFile(const GgufFile&) = delete;
  GgufFile& operator=(const GgufFile&) = delete;

  const std::string& path() const;
  /// nullptr if the key is absent.
  const GgufValue* find(std::string_view key) const;
  /// nullopt if the key is absent or of another type.
  std::optional<std::string> find_string(std::string_view key) const;
  std::optional<int64_t> find_int(std::string_view key) const;
  std::optional<double> find_float(std::string_view key) const;  ///< an integer value is converted
  std::optional<bool> find_bool(std::string_view key) const;
  const std::vector<std::string>* find_strings(std::string_view key) const;
  const std::vector<int64_t>* find_ints(std::string_view key) const;
  const std::vector<double>* find_floats(std::string_view key) const;

  const std::vector<GgufTensor>& tensors() const;
  const GgufTensor* find_tensor(std::string_view name) const;

 private:
  GgufFile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// True if the path is a regular file that starts with the GGUF magic.
bool is_gguf(const std::filesystem::path& path);

}  // namespace lockstep::files
