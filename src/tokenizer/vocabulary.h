// SPDX-License-Identifier: Apache-2.0
// Strings by id and ids by string.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace lockstep::tokenizer {

/// Ids above are refused: real vocabularies end near 260,000, and a table of ids is as long as the largest.
inline constexpr int64_t kMaxTokenId = (int64_t{1} << 22) - 1;

/// Built once, then read from many threads. Different ids have different strings.
class StringTable final {
 public:
  /// kInvalidArgument if the id is out of 0..kMaxTokenId, or id or text are there already.
  Status add(int64_t id, std::string_view text);

  /// The largest id plus one.
  int32_t size() const { return static_cast<int32_t>(entries_.size()); }
  int32_t count() const { return count_; }
  bool has(int64_t id) const { return id >= 0 && id < size() && entries_[static_cast<size_t>(id)].offset >= 0; }
  /// Empty for an id without a string.
  std::string_view at(int64_t id) const;
  std::optional<int32_t> find(std::string_view text) const;

 private:
  struct Entry {
    int64_t offset = -1;
    uint32_t size = 0;
  };
  void grow();
  size_t slot_of(std::string_view text) const;

  std::string pool_;
  std::vector<Entry> entries_;
  std::vector<int32_t> slots_;  // open addressing, a power of two; -1 = free
  int32_t count_ = 0;
};

}  // namespace lockstep::tokenizer
