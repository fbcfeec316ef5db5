// SPDX-License-Identifier: Apache-2.0
// Helpers of this room's tests: a temporary folder, and writers of small (also broken) files.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace lockstep::files::testing {

/// A new folder, removed at the end.
class TempDir final {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep_files_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TempDir() {
    std::error_code code;
    std::filesystem::remove_all(path_, code);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    EXPECT_TRUE(out.good()) << file;
    return file;
  }

 private:
  std::filesystem::path path_;
};

/// Little-endian bytes of a number, appended.
template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// A safetensors file: the length of `header`, the header, the data.
inline std::string safetensors(std::string_view header, std::string_view data) {
  std::string out;
  put<uint64_t>(out, header.size());
  out += header;
  out += data;
  return out;
}

/// Writes GGUF files, right by default; any field can be set wrong.
class GgufWriter final {
 public:
  uint32_t magic = 0x46554747;
  uint32_t version = 3;
  uint64_t extra_keys = 0;     ///< claimed but not written
  uint64_t extra_tensors = 0;  ///< claimed but not written
  uint64_t alignment = 32;     ///< of the layout; write the key yourself

  static void put_string(std::string& out, std::string_view text) {
    put<uint64_t>(out, text.size());
    out += text;
  }
  template <class T>
  GgufWriter& key(std::string_view name, uint32_t type, T value) {
    raw_key(name, type, std::string(reinterpret_cast<const char*>(&value), sizeof value));
    return *this;
  }
  GgufWriter& u32(std::string_view name, uint32_t value) { return key<uint32_t>(name, 4, value); }
  GgufWriter& f32(std::string_view name, float value) { return key<float>(name, 6, value); }
  GgufWriter& boolean(std::string_view name, bool value) { return key<uint8_t>(name, 7, value ? 1 : 0); }
  GgufWriter& string(std::string_view name, std::string_view value) {
    std::string bytes;
    put_string(bytes, value);
    return raw_key(name, 8, bytes);
  }
  GgufWriter& strings(std::string_view name, const std::vector<std::string>& values) {
    std::string bytes;
    put<uint32_t>(bytes, 8);
    put<uint64_t>(bytes, values.size());
    for (const std::string& value : values) put_string(bytes, value);
    return raw_key(name, 9, bytes);
  }
  template <class T>
  GgufWriter& array(std::string_view name, uint32_t type, const std::vector<T>& values) {
    std::string bytes;
    put<uint32_t>(bytes, type);
    put<uint64_t>(bytes, values.size());
    for (const T value : values) put<T>(bytes, value);
    return raw_key(name, 9, bytes);
  }
  GgufWriter& raw_key(std::string_view name, uint32_t type, std::string_view value_bytes) {
    put_string(keys_, name);
    put<uint32_t>(keys_, type);
    keys_ += value_bytes;
    ++key_count_;
    return *this;
  }

  /// dims in file order (fastest first); the data is placed at the next aligned offset.
  GgufWriter& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, std::string_view data) {
    while (data_.size() % alignment != 0) data_.push_back('\0');
    raw_tensor(name, dims, type, data_.size());
    data_ += data;
    return *this;
  }
  /// Only the entry, with any offset.
  GgufWriter& raw_tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    put_string(tensors_, name);
    put<uint32_t>(tensors_, static_cast<uint32_t>(dims.size()));
    for (const uint64_t extent : dims) put<uint64_t>(tensors_, extent);
    put<uint32_t>(tensors_, type);
    put<uint64_t>(tensors_, offset);
    ++tensor_count_;
    return *this;
  }
  GgufWriter& raw_data(std::string_view data) {
    data_ += data;
    return *this;
  }

  std::string bytes() const {
    std::string out;
    put<uint32_t>(out, magic);
    put<uint32_t>(out, version);
    put<uint64_t>(out, tensor_count_ + extra_tensors);
    put<uint64_t>(out, key_count_ + extra_keys);
    out += keys_;
    out += tensors_;
    while (out.size() % alignment != 0) out.push_back('\0');
    return out + data_;
  }

 private:
  std::string keys_, tensors_, data_;
  uint64_t key_count_ = 0, tensor_count_ = 0;
};

}  // namespace lockstep::files::testing
