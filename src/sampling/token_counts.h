// SPDX-License-Identifier: Apache-2.0
// How often each token of one request has occurred, for penalties: repetition sees prompt and output, presence and
// frequency the output only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::sampling {

/// Sorted by id. A token that is there already costs a search and no allocation.
class TokenCounts final {
 public:
  struct Entry {
    int32_t id = 0;
    int32_t outputs = 0;  ///< times generated; 0 = in the prompt only
  };

  /// Counts `tokens` of the request `owner`, of which the first num_prompt are the prompt. If they go on from what has
  /// been counted for this owner, only the new ones are looked at.
  void update(uint64_t owner, std::span<const int32_t> tokens, int64_t num_prompt, int64_t max_tokens);
  std::span<const Entry> entries() const { return entries_; }

 private:
  void count_output(int32_t id);

  uint64_t owner_ = 0;
  int64_t num_counted_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace lockstep::sampling
