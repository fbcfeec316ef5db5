// SPDX-License-Identifier: Apache-2.0
// Ids of pieces seen before. Bounded, exact (whole pieces are compared), not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep::tokenizer {

class WordCache final {
 public:
  static constexpr size_t kMaxBytes = 23;
  static constexpr size_t kMaxIds = 9;

  /// One cache line of memory and of the CPU: 64 bytes.
  struct Line {
    std::array<uint64_t, 3> key{};  // the piece, zeros, and in the last byte its size; all zero: free
    uint32_t id_count = 0;
    std::array<int32_t, kMaxIds> ids{};
  };
  using Key = std::array<uint64_t, 3>;

  WordCache() : lines_(kLines) {}

  /// `piece` must have 1..kMaxBytes bytes.
  static Key key_of(std::string_view piece) {
    std::array<char, 24> bytes{};
    std::memcpy(bytes.data(), piece.data(), piece.size());
    bytes[23] = static_cast<char>(piece.size());
    Key key;
    std::memcpy(key.data(), bytes.data(), sizeof(key));
    return key;
  }

  /// Where a piece is (its key is then equal) or would be.
  Line& line(const Key& key) {
    uint64_t hash = (key[0] ^ (key[1] * 0x9E3779B97F4A7C15u) ^ (key[2] * 0xC2B2AE3D27D4EB4Fu)) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
    return lines_[(hash * 0xD6E8FEB86659FD93u) >> (64 - kLinesLog2)];
  }

  /// Takes the line over for this piece; does nothing if there are too many ids.
  static void fill(Line& line, const Key& key, std::span<const int32_t> ids) {
    if (ids.size() > kMaxIds) return;
    line.key = key;
    line.id_count = static_cast<uint32_t>(ids.size());
    std::memcpy(line.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr int kLinesLog2 = 13;
  static constexpr size_t kLines = size_t{1} << kLinesLog2;  // half a megabyte, about what a core's own cache holds
  std::vector<Line> lines_;
};
static_assert(sizeof(WordCache::Line) == 64);

}  // namespace lockstep::tokenizer
