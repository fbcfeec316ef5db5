// SPDX-License-Identifier: Apache-2.0
#include "kv/kv_cache.h"

#include <gtest/gtest.h>

namespace lockstep::kv {
namespace {

constexpr int64_t kBlock = 2;
using Tokens = std::vector<int32_t>;

std::vector<uint64_t> hashes_of(const Tokens& tokens) {
  std::vector<uint64_t> hashes;
  uint64_t hash = PrefixIndex::root(nullptr).hash;
  for (size_t i = 0; i + kBlock <= tokens.size(); i += kBlock) {
    hash = PrefixIndex::chain(hash, std::span(tokens).subspan(i, kBlock));
    hashes.push_back(hash);
  }
  return hashes;
}

std::vector<BlockId> match(const KvCache& cache, const Tokens& tokens, int64_t max_blocks) {
  std::vector<BlockId> blocks;
  PrefixCursor cursor = PrefixIndex::root(nullptr);
  cache.match(tokens, hashes_of(tokens), nullptr, max_blocks, blocks, cursor);
  EXPECT_EQ(cursor.num_blocks, static_cast<int64_t>(blocks.size()));
  return blocks;
}

std::vector<BlockId> compute(KvCache& cache, const Tokens& tokens) {
  std::vector<BlockId> blocks;
  PrefixCursor cursor = PrefixIndex::root(nullptr);
  for (size_t i = 0; i + kBlock <= tokens.size(); i += kBlock) {
    blocks.push_back(cache.allocate());
    cache.publish(std::span(tokens).subspan(i, kBlock), nullptr, blocks.back(), cursor);
  }
  return blocks;
}

TEST(KvCache, PublishedBlocksAreFoundWhileUsedAndAfter) {
  KvCache cache(6, kBlock, true);
  const Tokens tokens = {1, 2, 3, 4, 5, 6};
  const auto blocks = compute(cache, tokens);
  EXPECT_EQ(match(cache, tokens, 3), blocks);
  EXPECT_EQ(match(cache, tokens, 2).size(), 2U);
  EXPECT_EQ(match(cache, {1, 2, 3, 5}, 2).size(), 1U);
  cache.release(blocks);
  EXPECT_EQ(match(cache, tokens, 3), blocks);
  const KvUsage usage = cache.usage();
  EXPECT_EQ(usage.total, 6);
  EXPECT_EQ(usage.free, 3);
  EXPECT_EQ(usage.cached, 3);
  EXPECT_EQ(usage.used, 0);
  EXPECT_TRUE(cache.check().ok());
}

TEST(KvCache, FreeBlocksGoBeforeCachedOnesAndChildrenBeforeParents) {
  KvCache cache(4, kBlock, true);
  const Tokens tokens = {1, 2, 3, 4};
  const auto blocks = compute(cache, tokens);
  cache.release(blocks);
  const BlockId a = cache.allocate();
  const BlockId b = cache.allocate();
  EXPECT_EQ(match(cache, tokens, 2).size(), 2U);
  EXPECT_EQ(cache.allocate(), blocks[1]);
  EXPECT_EQ(match(cache, tokens, 2).size(), 1U);
  EXPECT_EQ(cache.allocate(), blocks[0]);
  EXPECT_EQ(match(cache, tokens, 2).size(), 0U);
  EXPECT_EQ(cache.num_available(), 0);
  cache.release(std::vector<BlockId>{a, b, blocks[0], blocks[1]});
  EXPECT_EQ(cache.usage().free, 4);
  EXPECT_TRUE(cache.check().ok());
}

TEST(KvCache, AHitMakesABlockTheYoungest) {
  KvCache cache(2, kBlock, true);
  const auto first = compute(cache, {1, 2});
  cache.release(first);
  const auto second = compute(cache, {3, 4});
  cache.release(second);
  cache.retain(match(cache, {1, 2}, 1).front());
  EXPECT_EQ(cache.usage().cached, 1);
  cache.release(first);
  EXPECT_EQ(cache.allocate(), second.front());
  EXPECT_TRUE(cache.check().ok());
}

TEST(KvCache, TheSameContentTwiceStaysPrivate) {
  KvCache cache(4, kBlock, true);
  const auto first = compute(cache, {1, 2, 3, 4});
  const auto second = compute(cache, {1, 2, 3, 4});
  EXPECT_EQ(match(cache, {1, 2, 3, 4}, 2), first);
  cache.release(second);
  EXPECT_EQ(cache.usage().free, 2);
  EXPECT_EQ(cache.usage().cached, 0);
  cache.release(first);
  EXPECT_EQ(cache.usage().cached, 2);
  EXPECT_TRUE(cache.check().ok());
}

TEST(KvCache, FlushForgetsAndSharedBlocksStay) {
  KvCache cache(4, kBlock, true);
  const auto held = compute(cache, {1, 2});
  const auto idle = compute(cache, {3, 4});
  cache.release(idle);
  cache.flush();
  EXPECT_TRUE(match(cache, {1, 2}, 1).empty());
  EXPECT_TRUE(match(cache, {3, 4}, 1).empty());
  EXPECT_EQ(cache.references(held.front()), 1);
  EXPECT_EQ(cache.usage().free, 3);
  cache.release(held);
  EXPECT_EQ(cache.usage().free, 4);
  EXPECT_TRUE(cache.check().ok());
}

TEST(KvCache, SwitchedOffNothingIsFound) {
  KvCache cache(4, kBlock, false);
  const auto blocks = compute(cache, {1, 2});
  EXPECT_TRUE(match(cache, {1, 2}, 1).empty());
  cache.release(blocks);
  EXPECT_EQ(cache.usage().cached, 0);
  EXPECT_TRUE(cache.check().ok());
}

}  // namespace
}  // namespace lockstep::kv
