// SPDX-License-Identifier: Apache-2.0
// The paged KV store's bookkeeping: the pool of blocks and, over it, the prefix cache. Block ids only: no bytes, no
// page layout, no requests.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/block_pool.h"
#include "kv/prefix_index.h"

namespace lockstep::kv {

/// free + cached + used = total.
struct KvUsage {
  int64_t total = 0;
  int64_t free = 0;    ///< nobody holds them and nothing is known of them
  int64_t cached = 0;  ///< nobody holds them, but a prefix can still be found there; taken when no free one is left
  int64_t used = 0;    ///< held
};

/// Not thread-safe. Allocates nothing after construction.
class KvCache final {
 public:
  /// Without prefix caching match() finds nothing and publish() does nothing.
  KvCache(int64_t num_blocks, int64_t block_size, bool enable_prefix_caching);

  int64_t block_size() const { return block_size_; }
  int64_t num_blocks() const { return pool_.num_blocks(); }
  bool prefix_caching() const { return enabled_; }
  /// Blocks that allocate() can give, cached ones included.
  int64_t num_available() const { return pool_.num_free(); }
  int32_t references(BlockId block) const { return pool_.references(block); }
  KvUsage usage() const;  ///< O(1)

  /// A block held once, its content unknown. Evicts the least recently used cached block if no free one is left. Needs
  /// num_available() > 0.
  BlockId allocate();
  void retain(BlockId block);
  /// Gives back all blocks of one prefix, last first: so a parent is never evicted before its children.
  void release(std::span<const BlockId> blocks);

  /// Appends to `blocks` the blocks that hold the longest known run of `tokens` after the root, at most `max_blocks`,
  /// and moves `cursor` (from root(salt)) past them. hashes[i] = chained hash of block i, at least max_blocks of them.
  /// Takes no references: call retain() before anything else is allocated.
  void match(std::span<const int32_t> tokens, std::span<const uint64_t> hashes, const Salt& salt, int64_t max_blocks,
             std::vector<BlockId>& blocks, PrefixCursor& cursor) const;

  /// Makes known that `block`, held by the caller and written completely, holds `tokens` (block_size of them) after
  /// `cursor`; moves the cursor past it. If that content is known already, the block stays private.
  void publish(std::span<const int32_t> tokens, const Salt& salt, BlockId block, PrefixCursor& cursor);

  /// Forgets all prefixes; blocks in use stay with their holders.
  void flush();

  /// Pool and index are sound. kInternal if not.
  Status check() const;

 private:
  bool known(BlockId block) const { return enabled_ && index_.contains(block); }

  int64_t block_size_;
  bool enabled_;
  BlockPool pool_;
  PrefixIndex index_;
  int64_t num_cached_ = 0;  // free blocks that are in the index
};

}  // namespace lockstep::kv
