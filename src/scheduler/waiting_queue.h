// SPDX-License-Identifier: Apache-2.0
// Requests that wait for admission, best claim first.
#pragma once

#include <cstdint>
#include <set>

#include "scheduler/sequence.h"

namespace lockstep::scheduler {

/// Owns nothing. Insertion and removal O(log n). Not thread-safe.
class WaitingQueue final {
 public:
  void insert(Sequence* sequence);
  void erase(Sequence* sequence);
  bool empty() const { return order_.empty(); }
  int64_t size() const { return static_cast<int64_t>(order_.size()); }
  int64_t num_tokens() const { return num_tokens_; }  ///< known tokens of all that wait
  auto begin() const { return order_.begin(); }
  auto end() const { return order_.end(); }

 private:
  struct Before {
    bool operator()(const Sequence* a, const Sequence* b) const { return a->before(*b); }
  };
  std::set<Sequence*, Before> order_;
  int64_t num_tokens_ = 0;
};

}  // namespace lockstep::scheduler
