// SPDX-License-Identifier: Apache-2.0
#include "kv/prefix_index.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace lockstep::kv {
namespace {

// The finaliser of splitmix64 (Steele, Lea, Flood, 2014): every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

bool same_salt(const Salt& a, const Salt& b) {
  if (a == b) return true;
  const std::string_view left = a ? std::string_view(*a) : std::string_view();
  const std::string_view right = b ? std::string_view(*b) : std::string_view();
  return left == right;
}

}  // namespace

PrefixIndex::PrefixIndex(int64_t num_blocks, int64_t block_size) : block_size_(static_cast<size_t>(block_size)) {
  LOCKSTEP_CHECK(num_blocks >= 1 && block_size >= 1);
  buckets_.assign(std::bit_ceil(static_cast<size_t>(num_blocks)), -1);
  entries_.resize(static_cast<size_t>(num_blocks));
  tokens_.assign(static_cast<size_t>(num_blocks) * block_size_, 0);
}

PrefixCursor PrefixIndex::root(const Salt& salt) {
  PrefixCursor cursor;
  cursor.hash = 0x9E3779B97F4A7C15u;
  if (salt) {
    for (char c : *salt) cursor.hash = mix(cursor.hash + static_cast<unsigned char>(c) + 1);
  }
  return cursor;
}

uint64_t PrefixIndex::chain(uint64_t parent, std::span<const int32_t> tokens) {
  uint64_t hash = parent;
  for (int32_t token : tokens) hash = mix(hash + static_cast<uint32_t>(token) + 0x9E3779B97F4A7C15u);
  return hash;
}

std::optional<BlockId> PrefixIndex::find(const PrefixCursor& at, const Salt& salt, uint64_t hash,
                                         std::span<const int32_t> tokens) const {
  for (BlockId block = buckets_[bucket_of(hash)]; block >= 0; block = entries_[static_cast<size_t>(block)].next) {
    const Entry& entry = entries_[static_cast<size_t>(block)];
    if (entry.hash != hash || entry.parent != at.serial) continue;
    if (at.serial == 0 && !same_salt(entry.salt, salt)) continue;
    if (std::equal(tokens.begin(), tokens.end(), tokens_of(block))) return block;
  }
  return std::nullopt;
}

PrefixCursor PrefixIndex::after(const PrefixCursor& at, BlockId block) const {
  const Entry& entry = entries_[static_cast<size_t>(block)];
  return {.num_blocks = at.num_blocks + 1, .hash = entry.hash, .serial = entry.serial};
}

void PrefixIndex::insert(const PrefixCursor& at, const Salt& salt, uint64_t hash, std::span<const int32_t> tokens,
                         BlockId block) {
  LOCKSTEP_CHECK(!contains(block) && tokens.size() == block_size_);
  Entry& entry = entries_[static_cast<size_t>(block)];
  BlockId& bucket = buckets_[bucket_of(hash)];
  entry.hash = hash;
  entry.serial = ++last_serial_;
  entry.parent = at.serial;
  if (at.serial == 0) entry.salt = salt;
  entry.next = bucket;
  bucket = block;
  std::copy(tokens.begin(), tokens.end(), tokens_of(block));
  ++size_;
}

void PrefixIndex::erase(BlockId block) {
  LOCKSTEP_CHECK(contains(block));
  Entry& entry = entries_[static_cast<size_t>(block)];
  BlockId* link = &buckets_[bucket_of(entry.hash)];
  while (*link != block) link = &entries_[static_cast<size_t>(*link)].next;
  *link = entry.next;
  entry = Entry{};
  --size_;
}

Status PrefixIndex::check() const {
  int64_t reached = 0;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    for (BlockId block = buckets_[bucket]; block >= 0; block = entries_[static_cast<size_t>(block)].next) {
      if (++reached > size_) return error(StatusCode::kInternal, "prefix index: more entries reached than counted");
      if (!contains(block) || bucket_of(entries_[static_cast<size_t>(block)].hash) != bucket) {
        return error(StatusCode::kInternal, "prefix index: block {} is in a wrong bucket", block);
      }
    }
  }
  const auto held = std::count_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.serial != 0; });
  if (reached != size_ || held != size_) {
    return error(StatusCode::kInternal, "prefix index: {} entries counted, {} reached, {} held", size_, reached, held);
  }
  return {};
}

}  // namespace lockstep::kv
