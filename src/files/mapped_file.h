// SPDX-License-Identifier: Apache-2.0
// A read-only memory-mapped file, and text for messages about damaged files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep::files {

/// Maps a whole regular file. Immutable, thread-safe. A file that another process shortens while it is mapped raises
/// SIGBUS on access, as with any mmap: model files must not be rewritten in place under a running server.
class MappedFile final {
 public:
  /// kNotFound if it can't be opened, kInvalidArgument if it is no regular file. An empty file gives an empty span.
  static Expected<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes) : path_(std::move(path)), bytes_(bytes) {}
  std::string path_;
  std::span<const std::byte> bytes_;
};

/// Drops the resident pages that lie wholly inside `bytes`, which must be part of a MappedFile. Contents stay readable.
void release_pages(std::span<const std::byte> bytes);

/// The whole file as text. kNotFound if it can't be opened, kDataLoss if it is longer than `limit` bytes.
Expected<std::string> read_text_file(const std::filesystem::path& path, size_t limit);

/// Untrusted text made safe to print: bytes outside printable ASCII become \xNN, at most `kept` bytes of it are shown.
std::string printable(std::string_view text, size_t kept = 200);

}  // namespace lockstep::files
