// SPDX-License-Identifier: Apache-2.0
#include "kv/kv_cache.h"

#include "base/check.h"

namespace lockstep::kv {

KvCache::KvCache(int64_t num_blocks, int64_t block_size, bool enable_prefix_caching)
    : block_size_(block_size),
      enabled_(enable_prefix_caching),
      pool_(num_blocks),
      index_(enable_prefix_caching ? num_blocks : 1, block_size) {}

KvUsage KvCache::usage() const {
  return {.total = pool_.num_blocks(),
          .free = pool_.num_free() - num_cached_,
          .cached = num_cached_,
          .used = pool_.num_blocks() - pool_.num_free()};
}

BlockId KvCache::allocate() {
  const BlockId block = pool_.take();
  if (known(block)) {
    index_.erase(block);
    --num_cached_;
  }
  return block;
}

void KvCache::retain(BlockId block) {
  if (pool_.references(block) == 0 && known(block)) --num_cached_;
  pool_.retain(block);
}

void KvCache::release(std::span<const BlockId> blocks) {
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    const bool keep = known(*block);
    const bool last = pool_.release(*block, keep ? FreeEnd::kBack : FreeEnd::kFront);
    if (last && keep) ++num_cached_;
  }
}

void KvCache::match(std::span<const int32_t> tokens, std::span<const uint64_t> hashes, const Salt& salt,
                    int64_t max_blocks, std::vector<BlockId>& blocks, PrefixCursor& cursor) const {
  if (!enabled_) return;
  const auto size = static_cast<size_t>(block_size_);
  for (size_t i = 0; i < static_cast<size_t>(max_blocks); ++i) {
    const auto block = index_.find(cursor, salt, hashes[i], tokens.subspan(i * size, size));
    if (!block) return;
    blocks.push_back(*block);
    cursor = index_.after(cursor, *block);
  }
}

void KvCache::publish(std::span<const int32_t> tokens, const Salt& salt, BlockId block, PrefixCursor& cursor) {
  if (!enabled_) return;
  LOCKSTEP_CHECK(pool_.references(block) > 0);
  const uint64_t hash = PrefixIndex::chain(cursor.hash, tokens);
  auto holder = index_.find(cursor, salt, hash, tokens);
  if (!holder) {
    index_.insert(cursor, salt, hash, tokens, block);
    holder = block;
  }
  cursor = index_.after(cursor, *holder);
}

void KvCache::flush() {
  for (BlockId block = 0; block < static_cast<BlockId>(pool_.num_blocks()); ++block) {
    if (known(block)) index_.erase(block);
  }
  num_cached_ = 0;
}

Status KvCache::check() const {
  LOCKSTEP_RETURN_IF_ERROR(pool_.check());
  if (enabled_) LOCKSTEP_RETURN_IF_ERROR(index_.check());
  int64_t cached = 0;
  for (BlockId block = 0; block < static_cast<BlockId>(pool_.num_blocks()); ++block) {
    cached += pool_.references(block) == 0 && known(block) ? 1 : 0;
  }
  if (cached != num_cached_) {
    return error(StatusCode::kInternal, "kv cache: {} blocks counted as cached, {} are", num_cached_, cached);
  }
  return {};
}

}  // namespace lockstep::kv
