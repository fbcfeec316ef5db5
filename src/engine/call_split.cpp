// SPDX-License-Identifier: Apache-2.0
#include "engine/call_split.h"

#include <algorithm>
#include <functional>

namespace lockstep::engine {

Expected<CallSplit> CallSplit::create(std::vector<int64_t> batch_sizes, int64_t max_num_seqs) {
  std::sort(batch_sizes.begin(), batch_sizes.end(), std::greater<>());
  if (!batch_sizes.empty() && batch_sizes.back() != 1) {
    return error(StatusCode::kUnsupported,
                 "the backend serves only {} rows a call: steps of 1 to {} rows can't be put together from these",
                 fmt::join(batch_sizes, ", "), max_num_seqs);
  }
  return CallSplit(std::move(batch_sizes));
}

void CallSplit::split(int64_t rows, std::vector<int64_t>& calls) const {
  calls.clear();
  if (sizes_.empty()) {
    calls.push_back(rows);
    return;
  }
  for (int64_t size : sizes_) {
    for (; rows >= size; rows -= size) calls.push_back(size);
  }
}

}  // namespace lockstep::engine
