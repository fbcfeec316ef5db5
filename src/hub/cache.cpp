// SPDX-License-Identifier: Apache-2.0
#include "hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/log.h"
#include "hub/file_hash.h"

namespace lockstep::hub {
namespace {

namespace fs = std::filesystem;

std::string folder_name(const ModelName& model) { return fmt::format("models--{}--{}", model.org, model.name); }

Status make_folders(const fs::path& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (!code) return {};
  return error(StatusCode::kFailedPrecondition, "{}: cannot be made: {}. HF_HOME names another place for the cache",
               path.string(), code.message());
}

/// A name beside `path` that no other process uses.
fs::path beside(const fs::path& path) { return fmt::format("{}.{}.tmp", path.string(), ::getpid()); }

Status move_over(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::rename(from, to, code);
  if (!code) return {};
  return error(StatusCode::kFailedPrecondition, "{}: cannot be written: {}", to.string(), code.message());
}

}  // namespace

Cache::Cache(const fs::path& root, const ModelName& model) : folder_(root / folder_name(model)) {}

std::string Cache::commit_of(const std::string& revision) const {
  if (hash_kind(revision) == HashKind::kGitSha1) return revision;
  std::ifstream file(folder_ / "refs" / revision);
  std::string commit;
  std::getline(file, commit);
  return hash_kind(commit) == HashKind::kGitSha1 ? commit : "";
}

Status Cache::create() const {
  for (const char* name : {"refs", "blobs", "snapshots"}) LOCKSTEP_RETURN_IF_ERROR(make_folders(folder_ / name));
  return {};
}

Status Cache::link(const std::string& commit, const std::string& file, const std::string& etag) const {
  const fs::path path = snapshot(commit) / file;
  LOCKSTEP_RETURN_IF_ERROR(make_folders(path.parent_path()));
  const fs::path target = blob(etag).lexically_relative(path.parent_path());
  std::error_code code;
  const fs::path temporary = beside(path);
  fs::remove(temporary, code);
  fs::create_symlink(target, temporary, code);
  if (code) {
    return error(StatusCode::kFailedPrecondition, "{}: symbolic links can't be made here: {}", path.string(),
                 code.message());
  }
  return move_over(temporary, path);
}

Status Cache::set_commit(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return {};
  const fs::path path = folder_ / "refs" / revision;
  LOCKSTEP_RETURN_IF_ERROR(make_folders(path.parent_path()));
  const fs::path temporary = beside(path);
  std::ofstream file(temporary, std::ios::binary);
  file << commit;
  file.close();
  if (!file) return error(StatusCode::kFailedPrecondition, "{}: cannot be written", path.string());
  return move_over(temporary, path);
}

Expected<CacheLock> CacheLock::take(const fs::path& root, const ModelName& model) {
  const fs::path folder = root / ".locks" / folder_name(model);
  LOCKSTEP_RETURN_IF_ERROR(make_folders(folder));
  const fs::path path = folder / "lockstep.lock";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return error(StatusCode::kFailedPrecondition, "{}: {}", path.string(), std::strerror(errno));
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    log_info("another process downloads {}; waiting for it", model.repository());
    while (::flock(file, LOCK_EX) != 0) {
      if (errno == EINTR) continue;
      const std::string reason = std::strerror(errno);
      ::close(file);
      return error(StatusCode::kFailedPrecondition, "{}: cannot be locked: {}", path.string(), reason);
    }
  }
  return CacheLock(file);
}

CacheLock::CacheLock(CacheLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}

CacheLock::~CacheLock() {
  if (file_ >= 0) ::close(file_);  // which unlocks
}

}  // namespace lockstep::hub
