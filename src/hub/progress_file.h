// SPDX-License-Identifier: Apache-2.0
// A file that is being downloaded in ranges, and beside it how much of each range is there: what a later run goes on
// from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "base/status.h"

namespace lockstep::hub {

/// PATH.lockstep.incomplete has the bytes, PATH.lockstep.progress the counts, mapped and shared, so that they outlive a
/// killed process. Both are made, or taken up again when they fit size and chunk. Not thread-safe; one process at a
/// time (CacheLock).
class ProgressFile final {
 public:
  /// size >= 0 bytes in ranges of chunk_bytes > 0, the last one shorter. Errors: no room, no right, not a regular file.
  static Expected<ProgressFile> open(const std::filesystem::path& path, int64_t size, int64_t chunk_bytes);
  ProgressFile(ProgressFile&& other) noexcept;
  ProgressFile& operator=(ProgressFile&&) = delete;
  ~ProgressFile();

  int64_t num_chunks() const { return num_chunks_; }
  int64_t chunk_begin(int64_t chunk) const { return chunk * chunk_bytes_; }
  int64_t chunk_size(int64_t chunk) const;
  /// Bytes of a chunk that are there, from its begin on.
  int64_t received(int64_t chunk) const { return counts_[chunk]; }
  void forget(int64_t chunk) { counts_[chunk] = 0; }
  int64_t received_in_all() const;
  bool is_whole() const { return received_in_all() == size_; }

  /// Puts bytes after those that chunk has. kResourceExhausted: disk full; kDataLoss: more than the chunk takes.
  Status append(int64_t chunk, std::span<const char> bytes);
  const std::filesystem::path& data_path() const { return data_path_; }
  /// Flushes the bytes to the disk, gives the file its name and removes the counts.
  Status finish();
  /// Removes both files: their content is wrong.
  void discard();

 private:
  ProgressFile(std::filesystem::path path, int64_t size, int64_t chunk_bytes);
  Status open_files();

  std::filesystem::path path_, data_path_, counts_path_;
  int64_t size_, chunk_bytes_, num_chunks_;
  int data_ = -1;
  void* map_ = nullptr;
  size_t map_bytes_ = 0;
  int64_t* counts_ = nullptr;
};

}  // namespace lockstep::hub
