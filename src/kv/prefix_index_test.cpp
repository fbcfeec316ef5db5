// SPDX-License-Identifier: Apache-2.0
#include "kv/prefix_index.h"

#include <gtest/gtest.h>

namespace lockstep::kv {
namespace {

using Tokens = std::vector<int32_t>;

PrefixCursor add(PrefixIndex& index, const PrefixCursor& at, const Salt& salt, const Tokens& tokens, BlockId block) {
  index.insert(at, salt, PrefixIndex::chain(at.hash, tokens), tokens, block);
  return index.after(at, block);
}

std::optional<BlockId> find(const PrefixIndex& index, const PrefixCursor& at, const Salt& salt, const Tokens& tokens) {
  return index.find(at, salt, PrefixIndex::chain(at.hash, tokens), tokens);
}

TEST(PrefixIndex, FindsABlockOnlyAfterItsOwnParent) {
  PrefixIndex index(8, 2);
  const PrefixCursor root = PrefixIndex::root(nullptr);
  const PrefixCursor first = add(index, root, nullptr, {1, 2}, 5);
  const PrefixCursor second = add(index, first, nullptr, {3, 4}, 6);
  EXPECT_EQ(second.num_blocks, 2);
  EXPECT_EQ(find(index, root, nullptr, {1, 2}), 5);
  EXPECT_EQ(find(index, first, nullptr, {3, 4}), 6);
  EXPECT_EQ(find(index, root, nullptr, {3, 4}), std::nullopt);
  EXPECT_EQ(find(index, second, nullptr, {3, 4}), std::nullopt);
  EXPECT_EQ(find(index, first, nullptr, {3, 5}), std::nullopt);
}

TEST(PrefixIndex, EqualHashesOfOtherTokensAreTold) {
  PrefixIndex index(8, 2);
  const PrefixCursor root = PrefixIndex::root(nullptr);
  const Tokens a = {1, 2};
  const Tokens b = {9, 9};
  index.insert(root, nullptr, 42, a, 0);
  EXPECT_EQ(index.find(root, nullptr, 42, b), std::nullopt);
  index.insert(root, nullptr, 42, b, 1);
  EXPECT_EQ(index.find(root, nullptr, 42, a), 0);
  EXPECT_EQ(index.find(root, nullptr, 42, b), 1);
  // The same tokens and hash under two parents are two entries.
  const PrefixCursor after_a = index.after(root, 0);
  const PrefixCursor after_b = index.after(root, 1);
  index.insert(after_a, nullptr, 7, a, 2);
  EXPECT_EQ(index.find(after_b, nullptr, 7, a), std::nullopt);
  EXPECT_EQ(index.find(after_a, nullptr, 7, a), 2);
  EXPECT_TRUE(index.check().ok());
}

TEST(PrefixIndex, SaltsDoNotShare) {
  PrefixIndex index(8, 1);
  const Salt red = std::make_shared<const std::string>("red");
  const Salt red_again = std::make_shared<const std::string>("red");
  const Salt blue = std::make_shared<const std::string>("blue");
  add(index, PrefixIndex::root(red), red, {1}, 0);
  EXPECT_EQ(find(index, PrefixIndex::root(red_again), red_again, {1}), 0);
  EXPECT_EQ(find(index, PrefixIndex::root(blue), blue, {1}), std::nullopt);
  EXPECT_EQ(find(index, PrefixIndex::root(nullptr), nullptr, {1}), std::nullopt);
  // Even with a forced equal hash.
  const Tokens tokens = {1};
  const uint64_t hash = PrefixIndex::chain(PrefixIndex::root(red).hash, tokens);
  EXPECT_EQ(index.find(PrefixIndex::root(blue), blue, hash, tokens), std::nullopt);
}

TEST(PrefixIndex, ErasedParentHidesItsChildrenAlsoWhenItComesBack) {
  PrefixIndex index(8, 1);
  const PrefixCursor root = PrefixIndex::root(nullptr);
  const PrefixCursor first = add(index, root, nullptr, {1}, 0);
  add(index, first, nullptr, {2}, 1);
  index.erase(0);
  EXPECT_EQ(find(index, root, nullptr, {1}), std::nullopt);
  EXPECT_EQ(index.size(), 1);
  const PrefixCursor again = add(index, root, nullptr, {1}, 3);
  EXPECT_NE(again.serial, first.serial);
  EXPECT_EQ(find(index, again, nullptr, {2}), std::nullopt);
  EXPECT_TRUE(index.check().ok());
}

TEST(PrefixIndex, OneBucketHoldsMany) {
  PrefixIndex index(4, 1);
  const PrefixCursor root = PrefixIndex::root(nullptr);
  for (BlockId block = 0; block < 4; ++block) index.insert(root, nullptr, 8, Tokens{block}, block);
  index.erase(1);
  index.erase(3);
  EXPECT_EQ(index.find(root, nullptr, 8, Tokens{0}), 0);
  EXPECT_EQ(index.find(root, nullptr, 8, Tokens{1}), std::nullopt);
  EXPECT_EQ(index.find(root, nullptr, 8, Tokens{2}), 2);
  EXPECT_TRUE(index.check().ok());
}

}  // namespace
}  // namespace lockstep::kv
