// SPDX-License-Identifier: Apache-2.0
// Reference-counted block ids with a free list in order of last use. Every operation is O(1) and allocates nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace lockstep::kv {

/// Index of a block (a page over all layers) of the pool: 0..num_blocks-1.
using BlockId = int32_t;

/// Where a block that nobody holds goes in the free list: blocks are taken from the front.
enum class FreeEnd { kFront, kBack };

/// Ids only: no bytes. Not thread-safe.
class BlockPool final {
 public:
  /// num_blocks in 1..2^31-2. All blocks start free.
  explicit BlockPool(int64_t num_blocks);

  int64_t num_blocks() const { return num_blocks_; }
  /// Blocks that nobody holds.
  int64_t num_free() const { return num_free_; }
  int32_t references(BlockId block) const { return references_[static_cast<size_t>(block)]; }

  /// The front of the free list, now held once. Needs num_free() > 0.
  BlockId take();
  /// One more holder; a free block leaves the free list.
  void retain(BlockId block);
  /// One holder less; the last one puts the block at `end` of the free list. True if it was the last one.
  bool release(BlockId block, FreeEnd end);

  /// O(n): the list is well linked, holds exactly the blocks without references, and the counts agree. kInternal if
  /// not.
  Status check() const;

 private:
  void link(BlockId block, FreeEnd end);
  void unlink(BlockId block);
  BlockId sentinel() const { return static_cast<BlockId>(num_blocks_); }

  int64_t num_blocks_ = 0;
  int64_t num_free_ = 0;
  std::vector<int32_t> references_;
  std::vector<BlockId> next_, previous_;  // circular, the sentinel is element num_blocks
};

}  // namespace lockstep::kv
