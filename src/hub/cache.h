// SPDX-License-Identifier: Apache-2.0
// The folder of one model in the cache, laid out as huggingface_hub lays it out, so that both read what the other
// wrote:
//   models--org--name/refs/REVISION               the commit
//   models--org--name/blobs/ETAG                  contents
//   models--org--name/snapshots/COMMIT/FILE  ->   ../../blobs/ETAG
#pragma once

#include <filesystem>
#include <string>

#include "base/status.h"
#include "hub/model_name.h"

namespace lockstep::hub {

class Cache final {
 public:
  Cache(const std::filesystem::path& root, const ModelName& model);

  /// The commit of a revision as last seen, or of itself if it is a commit; "" if not known.
  std::string commit_of(const std::string& revision) const;
  std::filesystem::path snapshot(const std::string& commit) const { return folder_ / "snapshots" / commit; }
  std::filesystem::path blob(const std::string& etag) const { return folder_ / "blobs" / etag; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Makes the folders. Errors name the folder and the reason.
  Status create() const;
  /// Makes snapshots/COMMIT/FILE lead to the blob, in one step for others.
  Status link(const std::string& commit, const std::string& file, const std::string& etag) const;
  /// Writes refs/REVISION in one step, unless the revision is a commit.
  Status set_commit(const std::string& revision, const std::string& commit) const;

 private:
  std::filesystem::path folder_;
};

/// Holds a lock among processes while it lives (flock on a file below ROOT/.locks).
class CacheLock final {
 public:
  /// Waits for the lock, with a line in the log if another process has it. Errors: the file can't be made.
  static Expected<CacheLock> take(const std::filesystem::path& root, const ModelName& model);
  CacheLock(CacheLock&& other) noexcept;
  CacheLock& operator=(CacheLock&&) = delete;
  ~CacheLock();

 private:
  explicit CacheLock(int file) : file_(file) {}
  int file_;
};

}  // namespace lockstep::hub
