// SPDX-License-Identifier: Apache-2.0
#include "sampling/token_counts.h"

#include <algorithm>

namespace lockstep::sampling {

void TokenCounts::update(uint64_t owner, std::span<const int32_t> tokens, int64_t num_prompt, int64_t max_tokens) {
  const auto prompt = static_cast<size_t>(num_prompt);
  if (owner != owner_ || num_counted_ > static_cast<int64_t>(tokens.size()) || num_counted_ < num_prompt) {
    owner_ = owner;
    entries_.clear();
    entries_.reserve(prompt + static_cast<size_t>(max_tokens));
    for (int32_t id : tokens.first(prompt)) entries_.push_back({.id = id, .outputs = 0});
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
    const auto same_id = [](const Entry& a, const Entry& b) { return a.id == b.id; };
    entries_.erase(std::unique(entries_.begin(), entries_.end(), same_id), entries_.end());
    num_counted_ = num_prompt;
  }
  for (int32_t id : tokens.subspan(static_cast<size_t>(num_counted_))) count_output(id);
  num_counted_ = static_cast<int64_t>(tokens.size());
}

void TokenCounts::count_output(int32_t id) {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), id, [](const Entry& e, int32_t i) { return e.id < i; });
  if (at == entries_.end() || at->id != id) {
    entries_.insert(at, {.id = id, .outputs = 1});
  } else {
    ++at->outputs;
  }
}

}  // namespace lockstep::sampling
