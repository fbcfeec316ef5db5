// SPDX-License-Identifier: Apache-2.0
// A cursor over untrusted little-endian bytes. Reads never go past the end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace lockstep::files {

static_assert(std::endian::native == std::endian::little, "files are little-endian and read in place");

class ByteReader final {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  /// nullopt, and no move, if fewer than sizeof(T) bytes are left.
  template <class T>
  std::optional<T> read() {
    if (remaining() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  /// The next `size` bytes as text, in place. nullopt, and no move, if there are fewer.
  std::optional<std::string_view> read_text(uint64_t size) {
    if (size > remaining()) return std::nullopt;
    const std::string_view text(reinterpret_cast<const char*>(bytes_.data()) + position_, static_cast<size_t>(size));
    position_ += static_cast<size_t>(size);
    return text;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

}  // namespace lockstep::files
