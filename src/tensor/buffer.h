// SPDX-License-Identifier: Apache-2.0
// Owned, 64-byte aligned storage by mmap: a failed allocation is a Status, not std::bad_alloc, and memory that is never
// touched costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "tensor/view.h"

namespace lockstep {

/// Movable, not copyable. Contents start as zero bytes. Not thread-safe to move while used.
class Buffer final {
 public:
  Buffer() = default;
  /// Maps `bytes` (0 is allowed: no storage). Large buffers ask for transparent huge pages. kResourceExhausted names
  /// `what` and the size.
  static Expected<Buffer> allocate(int64_t bytes, std::string_view what);
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  /// Books the memory: writes a zero to every page, so that later use meets no page fault. The contents are lost.
  void touch();
  void reset();

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace lockstep
