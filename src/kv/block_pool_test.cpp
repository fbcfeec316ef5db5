// SPDX-License-Identifier: Apache-2.0
#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace lockstep::kv {
namespace {

TEST(BlockPool, TakesEveryBlockOnceFirstFreedFirst) {
  BlockPool pool(3);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_TRUE(pool.release(1, FreeEnd::kBack));
  EXPECT_TRUE(pool.release(0, FreeEnd::kBack));
  EXPECT_TRUE(pool.release(2, FreeEnd::kFront));
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_TRUE(pool.check().ok());
}

TEST(BlockPool, SharedBlockComesHomeWithItsLastHolder) {
  BlockPool pool(2);
  const BlockId block = pool.take();
  pool.retain(block);
  EXPECT_EQ(pool.references(block), 2);
  EXPECT_FALSE(pool.release(block, FreeEnd::kBack));
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_TRUE(pool.release(block, FreeEnd::kBack));
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(BlockPool, RetainTakesAFreeBlockOutOfTheMiddle) {
  BlockPool pool(3);
  pool.retain(1);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_TRUE(pool.check().ok());
}

TEST(BlockPoolDeathTest, ReleasingAFreeBlockIsABug) {
  BlockPool pool(1);
  EXPECT_DEATH(pool.release(0, FreeEnd::kBack), "references_");
  EXPECT_DEATH(pool.retain(1), "block < sentinel");
}

TEST(BlockPool, RandomOperationsKeepItSound) {
  std::mt19937 random(7);
  BlockPool pool(17);
  std::multiset<BlockId> held;
  for (int i = 0; i < 20000; ++i) {
    const auto choice = random() % 3;
    if (choice == 0 && pool.num_free() > 0) {
      held.insert(pool.take());
    } else if (choice == 1) {
      const auto block = static_cast<BlockId>(random() % 17);
      pool.retain(block);
      held.insert(block);
    } else if (!held.empty()) {
      auto it = held.begin();
      std::advance(it, random() % held.size());
      pool.release(*it, random() % 2 == 0 ? FreeEnd::kFront : FreeEnd::kBack);
      held.erase(it);
    }
    const std::set<BlockId> distinct(held.begin(), held.end());
    ASSERT_EQ(pool.num_free(), 17 - static_cast<int64_t>(distinct.size()));
    ASSERT_TRUE(i % 64 != 0 || pool.check().ok());
  }
}

}  // namespace
}  // namespace lockstep::kv
