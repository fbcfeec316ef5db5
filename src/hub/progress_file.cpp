// SPDX-License-Identifier: Apache-2.0
#include "hub/progress_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::hub {
namespace {

constexpr int64_t kMagic = 0x31706b636f6cLL;  // "lockp1"
constexpr int64_t kHeader = 3;                // magic, size, chunk size; then a count for each chunk

Status system_error(const std::filesystem::path& path, int number) {
  const StatusCode code =
      number == ENOSPC || number == EDQUOT ? StatusCode::kResourceExhausted : StatusCode::kFailedPrecondition;
  return error(code, "{}: {}", path.string(), std::strerror(number));
}

}  // namespace

ProgressFile::ProgressFile(std::filesystem::path path, int64_t size, int64_t chunk_bytes)
    : path_(std::move(path)),
      data_path_(path_.string() + ".lockstep.incomplete"),
      counts_path_(path_.string() + ".lockstep.progress"),
      size_(size),
      chunk_bytes_(chunk_bytes),
      num_chunks_(std::max<int64_t>(1, (size + chunk_bytes - 1) / chunk_bytes)) {}

ProgressFile::ProgressFile(ProgressFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_path_(std::move(other.data_path_)),
      counts_path_(std::move(other.counts_path_)),
      size_(other.size_),
      chunk_bytes_(other.chunk_bytes_),
      num_chunks_(other.num_chunks_),
      data_(std::exchange(other.data_, -1)),
      map_(std::exchange(other.map_, nullptr)),
      map_bytes_(other.map_bytes_),
      counts_(std::exchange(other.counts_, nullptr)) {}

ProgressFile::~ProgressFile() {
  if (map_ != nullptr) ::munmap(map_, map_bytes_);
  if (data_ >= 0) ::close(data_);
}

Expected<ProgressFile> ProgressFile::open(const std::filesystem::path& path, int64_t size, int64_t chunk_bytes) {
  ProgressFile out(path, size, chunk_bytes);
  LOCKSTEP_RETURN_IF_ERROR(out.open_files());
  return out;
}

Status ProgressFile::open_files() {
  data_ = ::open(data_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (data_ < 0) return system_error(data_path_, errno);
  struct stat data_stat{};
  if (::fstat(data_, &data_stat) != 0 || !S_ISREG(data_stat.st_mode)) return system_error(data_path_, EINVAL);
  const int counts = ::open(counts_path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (counts < 0) return system_error(counts_path_, errno);
  map_bytes_ = static_cast<size_t>(kHeader + num_chunks_) * sizeof(int64_t);
  struct stat counts_stat{};
  bool fits = ::fstat(counts, &counts_stat) == 0 && counts_stat.st_size == static_cast<off_t>(map_bytes_);
  // Room is taken now, so that neither the counts nor the data meet a full disk as a signal.
  int failed = fits                          ? 0
               : ::ftruncate(counts, 0) != 0 ? errno
                                             : ::posix_fallocate(counts, 0, static_cast<off_t>(map_bytes_));
  if (failed == 0) {
    map_ = ::mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, counts, 0);
    if (map_ == MAP_FAILED) {
      failed = errno;
      map_ = nullptr;
    }
  }
  ::close(counts);
  if (failed != 0) return system_error(counts_path_, failed);
  auto* words = static_cast<int64_t*>(map_);
  counts_ = words + kHeader;
  fits = fits && words[0] == kMagic && words[1] == size_ && words[2] == chunk_bytes_;
  for (int64_t i = 0; fits && i < num_chunks_; ++i) {
    // What the data file lacks was never written: its end is where the last byte came to lie.
    fits = counts_[i] >= 0 && counts_[i] <= chunk_size(i) &&
           (counts_[i] == 0 || chunk_begin(i) + counts_[i] <= data_stat.st_size);
  }
  if (fits) return {};
  words[0] = kMagic;
  words[1] = size_;
  words[2] = chunk_bytes_;
  std::fill_n(counts_, num_chunks_, 0);
  return {};
}

int64_t ProgressFile::chunk_size(int64_t chunk) const { return std::min(chunk_bytes_, size_ - chunk_begin(chunk)); }

int64_t ProgressFile::received_in_all() const {
  int64_t out = 0;
  for (int64_t i = 0; i < num_chunks_; ++i) out += counts_[i];
  return out;
}

Status ProgressFile::append(int64_t chunk, std::span<const char> bytes) {
  if (static_cast<int64_t>(bytes.size()) > chunk_size(chunk) - counts_[chunk]) {
    return error(StatusCode::kDataLoss, "{}: more bytes came than the {} that it has", path_.string(), size_);
  }
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(data_, bytes.data(), bytes.size(), chunk_begin(chunk) + counts_[chunk]);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(data_path_, errno);
    counts_[chunk] += written;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status ProgressFile::finish() {
  if (::ftruncate(data_, size_) != 0 || ::fsync(data_) != 0) return system_error(data_path_, errno);
  std::error_code code;
  std::filesystem::rename(data_path_, path_, code);
  if (code) return system_error(path_, code.value());
  std::filesystem::remove(counts_path_, code);
  return {};
}

void ProgressFile::discard() {
  std::error_code ignored;
  std::filesystem::remove(data_path_, ignored);
  std::filesystem::remove(counts_path_, ignored);
}

}  // namespace lockstep::hub
