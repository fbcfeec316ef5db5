// SPDX-License-Identifier: Apache-2.0
#include "engine/kv_sizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/fake/fake_backend.h"

namespace lockstep::engine {
namespace {

using testing::HasSubstr;

constexpr int64_t kBlockBytes = 16 * 64;  // the fake backend's, bf16

class FakeMemory final : public MemoryProbe {
 public:
  FakeMemory(int64_t limit, int64_t resident) : limit_(limit), resident_(resident) {}
  int64_t limit_bytes() const override { return limit_; }
  int64_t resident_bytes() const override { return resident_; }

 private:
  int64_t limit_, resident_;
};

class KvSizingTest : public testing::Test {
 protected:
  KvSizingTest() {
    options_.max_num_seqs = 4;
    options_.max_model_len = 160;  // 10 blocks
    options_.memory_utilization = 0.5;
  }
  Expected<step::KvGeometry> run(int64_t limit, int64_t resident, int64_t backend_limit = INT64_MAX) {
    backend::FakeOptions fake;
    fake.kv_limit_bytes = backend_limit;
    auto backend = backend::make_fake_backend(std::move(fake));
    backend::StepShape shape;
    shape.max_model_len = options_.max_model_len;
    EXPECT_TRUE(backend->warm_up(shape).ok());
    return allocate_kv_pool(*backend, options_, FakeMemory(limit, resident));
  }
  EngineOptions options_;
};

TEST_F(KvSizingTest, WithPlentyEveryRowGetsAWholeContext) { EXPECT_EQ(run(int64_t{1} << 40, 0)->num_blocks, 40); }

TEST_F(KvSizingTest, ElseAShareOfTheLimitLessWhatIsResident) {
  EXPECT_EQ(run(100 * kBlockBytes, 25 * kBlockBytes)->num_blocks, 25);
}

TEST_F(KvSizingTest, HalvedOnFailureDownToOneRequest) {
  EXPECT_EQ(run(int64_t{1} << 40, 0, 21 * kBlockBytes)->num_blocks, 20);
  EXPECT_EQ(run(int64_t{1} << 40, 0, 13 * kBlockBytes)->num_blocks, 10);
  const auto none = run(int64_t{1} << 40, 0, 9 * kBlockBytes);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(none.error().message(), HasSubstr("lower --max-model-len"));
}

TEST_F(KvSizingTest, NotEnoughForOneRequestNamesTheFlags) {
  const auto none = run(30 * kBlockBytes, 6 * kBlockBytes);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), HasSubstr("160 tokens needs 10 blocks"));
  EXPECT_THAT(none.error().message(), HasSubstr("--memory-utilization"));
  EXPECT_FALSE(run(10, 1000));
}

TEST_F(KvSizingTest, GivenBlocksAreExact) {
  options_.num_kv_blocks = 7;
  EXPECT_EQ(run(int64_t{1} << 40, 0)->num_blocks, 7);
  const auto none = run(int64_t{1} << 40, 0, 6 * kBlockBytes);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message(), HasSubstr("lower --num-kv-blocks"));
  // The limit is looked at before memory is touched.
  EXPECT_THAT(run(10 * kBlockBytes, 4 * kBlockBytes).error().message(), HasSubstr("lower --num-kv-blocks"));
}

TEST_F(KvSizingTest, GivenBytesAreRoundedDownToBlocks) {
  options_.kv_cache_memory = 9 * kBlockBytes - 1;
  EXPECT_EQ(run(int64_t{1} << 40, 0)->num_blocks, 8);
  options_.kv_cache_memory = kBlockBytes - 1;
  EXPECT_THAT(run(int64_t{1} << 40, 0).error().message(), HasSubstr("--kv-cache-memory"));
}

TEST(SystemMemoryProbe, IsPlausible) {
  const SystemMemoryProbe probe;
  EXPECT_GT(probe.resident_bytes(), 1 << 20);
  EXPECT_GT(probe.limit_bytes(), probe.resident_bytes());
}

}  // namespace
}  // namespace lockstep::engine
