// SPDX-License-Identifier: Apache-2.0
#include "kv/block_pool.h"

#include "base/check.h"

namespace lockstep::kv {

BlockPool::BlockPool(int64_t num_blocks) : num_blocks_(num_blocks) {
  LOCKSTEP_CHECK(num_blocks >= 1 && num_blocks < INT32_MAX);
  const auto size = static_cast<size_t>(num_blocks);
  references_.assign(size, 0);
  next_.assign(size + 1, sentinel());
  previous_.assign(size + 1, sentinel());
  for (BlockId block = 0; block < sentinel(); ++block) link(block, FreeEnd::kBack);
}

BlockId BlockPool::take() {
  LOCKSTEP_CHECK(num_free_ > 0);
  const BlockId block = next_[static_cast<size_t>(sentinel())];
  retain(block);
  return block;
}

void BlockPool::retain(BlockId block) {
  LOCKSTEP_CHECK(block >= 0 && block < sentinel());
  if (references_[static_cast<size_t>(block)]++ == 0) unlink(block);
}

bool BlockPool::release(BlockId block, FreeEnd end) {
  LOCKSTEP_CHECK(block >= 0 && block < sentinel() && references_[static_cast<size_t>(block)] > 0);
  if (--references_[static_cast<size_t>(block)] > 0) return false;
  link(block, end);
  return true;
}

void BlockPool::link(BlockId block, FreeEnd end) {
  const BlockId after = end == FreeEnd::kFront ? sentinel() : previous_[static_cast<size_t>(sentinel())];
  const BlockId before = next_[static_cast<size_t>(after)];
  next_[static_cast<size_t>(after)] = block;
  previous_[static_cast<size_t>(block)] = after;
  next_[static_cast<size_t>(block)] = before;
  previous_[static_cast<size_t>(before)] = block;
  ++num_free_;
}

void BlockPool::unlink(BlockId block) {
  const BlockId after = next_[static_cast<size_t>(block)];
  const BlockId before = previous_[static_cast<size_t>(block)];
  next_[static_cast<size_t>(before)] = after;
  previous_[static_cast<size_t>(after)] = before;
  --num_free_;
}

Status BlockPool::check() const {
  int64_t listed = 0;
  for (BlockId block = next_[static_cast<size_t>(sentinel())]; block != sentinel();
       block = next_[static_cast<size_t>(block)]) {
    if (++listed > num_blocks_) return error(StatusCode::kInternal, "block pool: the free list has a cycle");
    if (references_[static_cast<size_t>(block)] != 0) {
      return error(StatusCode::kInternal, "block pool: free block {} has {} references", block,
                   references_[static_cast<size_t>(block)]);
    }
    if (previous_[static_cast<size_t>(next_[static_cast<size_t>(block)])] != block) {
      return error(StatusCode::kInternal, "block pool: the free list is broken at block {}", block);
    }
  }
  int64_t unheld = 0;
  for (int32_t count : references_) unheld += count == 0 ? 1 : 0;
  if (listed != num_free_ || unheld != num_free_) {
    return error(StatusCode::kInternal, "block pool: {} blocks counted as free, {} listed, {} without references",
                 num_free_, listed, unheld);
  }
  return {};
}

}  // namespace lockstep::kv
