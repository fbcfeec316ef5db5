// SPDX-License-Identifier: Apache-2.0
#include "tensor/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lockstep {

Expected<Buffer> Buffer::allocate(int64_t bytes, std::string_view what) {
  if (bytes < 0) return invalid_argument("{}: a buffer of {} bytes was asked for", what, bytes);
  Buffer buffer;
  if (bytes == 0) return buffer;
  void* data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return error(StatusCode::kResourceExhausted, "{}: no memory for {} bytes: {}", what, bytes, std::strerror(errno));
  }
  constexpr int64_t kHugePage = int64_t{2} << 20;
  if (bytes >= kHugePage) ::madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // a hint: failure is harmless
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.bytes_ = bytes;
  return buffer;
}

void Buffer::touch() {
  static const int64_t page = ::sysconf(_SC_PAGESIZE);
  for (int64_t at = 0; at < bytes_; at += page) *static_cast<volatile std::byte*>(data_ + at) = std::byte{0};
}

void Buffer::reset() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(bytes_));
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace lockstep
