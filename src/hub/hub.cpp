// SPDX-License-Identifier: Apache-2.0
#include "hub/hub.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "files/safetensors.h"
#include "hub/cache.h"

namespace lockstep::hub {
namespace {

namespace fs = std::filesystem;
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kSingle = "model.safetensors";

bool is_there(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

/// The weight files of a folder model whose side files are in the snapshot.
Expected<std::vector<std::string>> weight_files(const fs::path& snapshot, bool has_single) {
  if (has_single || !is_there(snapshot / kIndex)) return std::vector<std::string>{kSingle};
  LOCKSTEP_ASSIGN_OR_RETURN(const auto weight_map, files::load_safetensors_index(snapshot / kIndex));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map) shards.insert(shard);
  return std::vector<std::string>(shards.begin(), shards.end());
}

std::vector<std::string> cached_files(const fs::path& snapshot) {
  std::vector<std::string> out;
  std::error_code code;
  for (auto it = fs::recursive_directory_iterator(snapshot, code); !code && it != fs::recursive_directory_iterator();
       it.increment(code)) {
    if (is_there(it->path())) out.push_back(it->path().lexically_relative(snapshot).string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// Whether a split GGUF file has all its parts: "...-00001-of-00003.gguf" and two more.
bool has_all_parts(const std::vector<std::string>& parts) {
  const std::string& first = parts.front();
  const size_t at = first.rfind("-of-");
  if (at == first.npos || first.size() != at + 4 + 5 + 5) return true;
  return std::atoi(first.c_str() + at + 4) == std::ssize(parts);
}

/// The model if the cache has it whole, else an empty path.
fs::path find_in_cache(const ModelName& model, const Cache& cache) {
  const std::string commit = cache.commit_of(model.revision);
  if (commit.empty()) return {};
  const fs::path snapshot = cache.snapshot(commit);
  if (model.file.empty() && is_there(snapshot / "config.json")) {
    const auto weights = weight_files(snapshot, is_there(snapshot / kSingle));
    const bool whole =
        weights && is_there(snapshot / "tokenizer.json") &&
        std::all_of(weights->begin(), weights->end(), [&](const auto& f) { return is_there(snapshot / f); });
    if (whole) return snapshot;
  }
  const auto parts = gguf_files(cached_files(snapshot), model.file, model.repository());
  // Without a file's name a single one may be the only one that was wanted before: the Hub knows whether there are
  // more.
  if (!parts || parts->empty() || model.file.empty() || !has_all_parts(*parts)) return {};
  return snapshot / parts->front();
}

class Fetch final {
 public:
  Fetch(const ModelName& model, const Settings& settings, const Progress& progress)
      : model_(model), settings_(settings), progress_(progress), cache_(settings.cache, model), http_(settings) {}

  Expected<fs::path> run() {
    LOCKSTEP_ASSIGN_OR_RETURN(const CacheLock lock, CacheLock::take(settings_.cache, model_));
    if (fs::path found = find_in_cache(model_, cache_); !found.empty())
      return found;  // by the process that had the lock
    LOCKSTEP_RETURN_IF_ERROR(cache_.create());
    LOCKSTEP_ASSIGN_OR_RETURN(listing_, list_files(http_, settings_, model_));
    log_info("{} at {}: commit {}", model_.repository(), settings_.endpoint, listing_.commit);
    LOCKSTEP_RETURN_IF_ERROR(cache_.set_commit(model_.revision, listing_.commit));
    const bool has_weights = has(kSingle) || has(kIndex);
    if (model_.file.empty() && has_weights && has("config.json")) return fetch_folder();
    LOCKSTEP_ASSIGN_OR_RETURN(const auto parts, gguf_files(listing_.files, model_.file, model_.repository()));
    if (parts.empty()) {
      return error(StatusCode::kUnsupported,
                   "{}: neither config.json with {} (or {}) nor a .gguf file is there. Weights in other formats (.bin, "
                   ".pth) are "
                   "not read",
                   model_.repository(), kSingle, kIndex);
    }
    LOCKSTEP_RETURN_IF_ERROR(fetch(parts));
    return cache_.snapshot(listing_.commit) / parts.front();
  }

 private:
  bool has(const std::string& file) const {
    return std::find(listing_.files.begin(), listing_.files.end(), file) != listing_.files.end();
  }

  /// Side files first: a snapshot that has its weights has everything.
  Expected<fs::path> fetch_folder() {
    const fs::path snapshot = cache_.snapshot(listing_.commit);
    LOCKSTEP_RETURN_IF_ERROR(fetch(side_files(listing_)));
    LOCKSTEP_ASSIGN_OR_RETURN(const auto weights, weight_files(snapshot, has(kSingle)));
    for (const std::string& file : weights) {
      if (!has(file))
        return error(StatusCode::kDataLoss, "{}: {} names {}, which is not there", model_.repository(), kIndex, file);
    }
    LOCKSTEP_RETURN_IF_ERROR(fetch(weights));
    return snapshot;
  }

  /// Downloads what is missing of these files and links all.
  Status fetch(const std::vector<std::string>& names) {
    std::vector<RemoteFile> files;
    std::vector<Target> missing;
    std::set<std::string> etags;  // two files may have one content
    int64_t bytes = 0;
    for (const std::string& name : names) {
      LOCKSTEP_ASSIGN_OR_RETURN(files.emplace_back(), describe_file(http_, settings_, model_, listing_.commit, name));
      const RemoteFile& file = files.back();
      if (is_there(cache_.blob(file.etag)) || !etags.insert(file.etag).second) continue;
      missing.push_back({file, cache_.blob(file.etag)});
      bytes += file.size;
    }
    LOCKSTEP_RETURN_IF_ERROR(check_room(bytes));
    LOCKSTEP_RETURN_IF_ERROR(download(http_, settings_, model_.repository(), missing, progress_));
    for (const RemoteFile& file : files) LOCKSTEP_RETURN_IF_ERROR(cache_.link(listing_.commit, file.name, file.etag));
    return {};
  }

  Status check_room(int64_t bytes) const {
    struct statvfs disk{};
    if (::statvfs(cache_.folder().c_str(), &disk) != 0) return {};
    const uint64_t free = static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize;
    if (free >= static_cast<uint64_t>(bytes)) return {};
    return error(StatusCode::kResourceExhausted,
                 "{}: needs {:.1f} GB, {} has {:.1f} GB free; HF_HOME names another place", model_.repository(),
                 static_cast<double>(bytes) / 1e9, cache_.folder().string(), static_cast<double>(free) / 1e9);
  }

  const ModelName& model_;
  const Settings& settings_;
  const Progress& progress_;
  Cache cache_;
  Http http_;
  Listing listing_;
};

}  // namespace

Expected<fs::path> fetch_model(const ModelName& model, const Settings& settings, const Progress& progress) {
  const Cache cache(settings.cache, model);
  if (fs::path found = find_in_cache(model, cache); !found.empty()) return found;
  if (settings.offline) {
    const std::string commit = cache.commit_of(model.revision);
    if (!commit.empty() && model.file.empty()) {
      LOCKSTEP_ASSIGN_OR_RETURN(const auto parts,
                                gguf_files(cached_files(cache.snapshot(commit)), "", model.repository()));
      if (!parts.empty() && has_all_parts(parts)) return cache.snapshot(commit) / parts.front();
    }
    return error(StatusCode::kNotFound,
                 "{}: HF_HUB_OFFLINE is set and {} has not all of revision {}{}. Unset HF_HUB_OFFLINE once, or give a "
                 "local folder",
                 model.repository(), cache.folder().string(), model.revision, commit.empty() ? " (nothing of it)" : "");
  }
  return Fetch(model, settings, progress).run();
}

}  // namespace lockstep::hub
