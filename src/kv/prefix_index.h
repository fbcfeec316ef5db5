// SPDX-License-Identifier: Apache-2.0
// Which block holds which run of tokens. A full block is found by a hash chained over all blocks before it, and then
// its own tokens and the identity of its parent are compared: by induction the whole prefix is equal, whatever the hash
// does.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "kv/block_pool.h"

namespace lockstep::kv {

/// Entries are shared only within one salt; null = none. Shared, so that publishing copies no string.
using Salt = std::shared_ptr<const std::string>;

/// A place in the tree of prefixes: after `num_blocks` full blocks. Identity is `serial`, unique for the life of the
/// index; 0 = the root.
struct PrefixCursor {
  int64_t num_blocks = 0;
  uint64_t hash = 0;
  uint64_t serial = 0;
};

/// Fixed memory, allocates nothing after construction. Knows nothing of reference counts. Not thread-safe.
class PrefixIndex final {
 public:
  PrefixIndex(int64_t num_blocks, int64_t block_size);

  static PrefixCursor root(const Salt& salt);
  /// Hash of the block `tokens` after a prefix with hash `parent`.
  static uint64_t chain(uint64_t parent, std::span<const int32_t> tokens);

  /// The block that holds `tokens` (block_size of them, hash = chain(at.hash, tokens)) after `at`.
  std::optional<BlockId> find(const PrefixCursor& at, const Salt& salt, uint64_t hash,
                              std::span<const int32_t> tokens) const;
  /// The cursor after `block`, which find() returned for `at`.
  PrefixCursor after(const PrefixCursor& at, BlockId block) const;
  /// Enters `block`, which must not be in the index and whose content must not be there either.
  void insert(const PrefixCursor& at, const Salt& salt, uint64_t hash, std::span<const int32_t> tokens, BlockId block);
  /// Forgets `block`, which must be in the index.
  void erase(BlockId block);
  bool contains(BlockId block) const { return entries_[static_cast<size_t>(block)].serial != 0; }
  int64_t size() const { return size_; }

  /// O(n): every entry can be reached through its bucket, and none else. kInternal if not.
  Status check() const;

 private:
  struct Entry {
    uint64_t hash = 0;
    uint64_t serial = 0;  // 0 = not in the index
    uint64_t parent = 0;
    Salt salt;          // of entries under the root only
    BlockId next = -1;  // in the bucket
  };
  size_t bucket_of(uint64_t hash) const { return static_cast<size_t>(hash & (buckets_.size() - 1)); }
  int32_t* tokens_of(BlockId block) { return tokens_.data() + static_cast<size_t>(block) * block_size_; }
  const int32_t* tokens_of(BlockId block) const { return tokens_.data() + static_cast<size_t>(block) * block_size_; }

  size_t block_size_;
  int64_t size_ = 0;
  uint64_t last_serial_ = 0;
  std::vector<BlockId> buckets_;
  std::vector<Entry> entries_;   // by block
  std::vector<int32_t> tokens_;  // [num_blocks, block_size]
};

}  // namespace lockstep::kv
