// SPDX-License-Identifier: Apache-2.0
// A backend may serve only some row counts, say {1, 16}. A step of other sizes is split into calls that it accepts.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace lockstep::engine {

/// Chooses the calls of a step.
class CallSplit final {
 public:
  /// batch_sizes: row counts that a call may have, empty = any. kUnsupported if some count in 1..max_num_seqs can't be
  /// put together from them: without 1 among them it can't.
  static Expected<CallSplit> create(std::vector<int64_t> batch_sizes, int64_t max_num_seqs);

  /// Rows of each call, in row order, summing to `rows`: the largest sizes first. Replaces `calls`.
  void split(int64_t rows, std::vector<int64_t>& calls) const;

 private:
  explicit CallSplit(std::vector<int64_t> descending) : sizes_(std::move(descending)) {}
  std::vector<int64_t> sizes_;  // descending; empty = any
};

}  // namespace lockstep::engine
