// SPDX-License-Identifier: Apache-2.0
#include "scheduler/waiting_queue.h"

#include "base/check.h"

namespace lockstep::scheduler {

void WaitingQueue::insert(Sequence* sequence) {
  LOCKSTEP_CHECK(order_.insert(sequence).second);
  num_tokens_ += static_cast<int64_t>(sequence->tokens.size());
}

void WaitingQueue::erase(Sequence* sequence) {
  LOCKSTEP_CHECK(order_.erase(sequence) == 1);
  num_tokens_ -= static_cast<int64_t>(sequence->tokens.size());
}

}  // namespace lockstep::scheduler
