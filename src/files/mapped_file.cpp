// SPDX-License-Identifier: Apache-2.0
#include "files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace lockstep::files {

Expected<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  const std::string name = path.string();
  // O_NONBLOCK: opening a FIFO by mistake must not hang.
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return error(StatusCode::kNotFound, "{}: can't be opened: {}", printable(name), std::strerror(errno));
  }
  struct stat info = {};
  const bool stat_ok = ::fstat(descriptor, &info) == 0;
  if (!stat_ok || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return invalid_argument("{}: not a regular file", printable(name));
  }
  std::span<const std::byte> bytes;
  if (info.st_size > 0) {
    const auto size = static_cast<size_t>(info.st_size);
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    const int map_errno = errno;
    if (address == MAP_FAILED) {
      ::close(descriptor);
      return error(StatusCode::kResourceExhausted, "{}: {} bytes can't be mapped: {}", printable(name), size,
                   std::strerror(map_errno));
    }
    bytes = {static_cast<const std::byte*>(address), size};
  }
  ::close(descriptor);  // the mapping stays
  return std::shared_ptr<const MappedFile>(new MappedFile(name, bytes));
}

MappedFile::~MappedFile() {
  // munmap takes a non-const pointer but writes nothing.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void release_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t skipped = (page - reinterpret_cast<uintptr_t>(bytes.data()) % page) % page;
  if (bytes.size() < skipped + page) return;
  const size_t whole = (bytes.size() - skipped) / page * page;
  // madvise takes a non-const pointer but writes nothing to a file's private mapping.
  ::madvise(const_cast<std::byte*>(bytes.data()) + skipped, whole, MADV_DONTNEED);
}

Expected<std::string> read_text_file(const std::filesystem::path& path, size_t limit) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  const std::span<const std::byte> bytes = file->bytes();
  if (bytes.size() > limit) {
    return error(StatusCode::kDataLoss, "{}: expected at most {} bytes, found {}", printable(file->path()), limit,
                 bytes.size());
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string printable(std::string_view text, size_t kept) {
  std::string out;
  for (const char c : text.substr(0, kept)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out.push_back(c);
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  if (text.size() > kept) out += "...";
  return out;
}

}  // namespace lockstep::files
