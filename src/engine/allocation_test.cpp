// SPDX-License-Identifier: Apache-2.0
// A steady decode step allocates nothing: counted by replacing operator new in this test program.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <numeric>

#include "backend/fake/fake_backend.h"
#include "engine/core.h"
#include "engine/kv_sizing.h"

// A sanitizer has an operator new of its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LOCKSTEP_COUNTS_ALLOCATIONS 0
#else
#define LOCKSTEP_COUNTS_ALLOCATIONS 1
#endif

namespace {
thread_local bool counting = false;
thread_local int64_t allocations = 0;
}  // namespace

#if LOCKSTEP_COUNTS_ALLOCATIONS
namespace {
void* allocate(std::size_t size) {
  if (counting) ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  if (counting) ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  if (counting) ++allocations;
  return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace lockstep::engine {
namespace {

TEST(Allocation, TheCounterCounts) {
  if (!LOCKSTEP_COUNTS_ALLOCATIONS) GTEST_SKIP() << "the sanitizer's operator new counts nothing";
  counting = true;
  const auto memory = std::make_unique<int>(5);
  counting = false;
  EXPECT_GE(allocations, *memory - 4);
}

// Requests of every kind decode side by side; 100 steps of schedule, run and update are looked at.
TEST(Allocation, SteadyDecodeStepAllocatesNothing) {
  for (const bool ahead : {false, true}) {
    EngineOptions options;
    options.max_num_seqs = 16;
    options.max_model_len = 1024;
    options.num_kv_blocks = 1024;
    auto backend = backend::make_fake_backend({});
    backend::StepShape shape;
    shape.max_num_batched_tokens = options.max_num_batched_tokens;
    shape.max_model_len = options.max_model_len;
    ASSERT_TRUE(backend->warm_up(shape).ok());
    ASSERT_TRUE(allocate_kv_pool(*backend, options, SystemMemoryProbe()));
    scheduler::SchedulerOptions plan_options = scheduler_options(options);
    plan_options.enable_prefix_caching = true;
    scheduler::Scheduler scheduler(plan_options);
    StepCapacity capacity{.max_num_seqs = 16,
                          .max_num_batched_tokens = 4096,
                          .max_step_width = 1,
                          .max_blocks_per_seq = 64,
                          .block_size = 16,
                          .vocab_size = 1000};
    auto runner = Runner::create(*backend, capacity, {});
    ASSERT_TRUE(runner);
    for (uint64_t id = 1; id <= 16; ++id) {
      request::Request request;
      request.prompt_token_ids.assign(30 + id, static_cast<int32_t>(id));
      request.sampling.max_tokens = 400;
      request.sampling.min_tokens = id % 4 == 0 ? 400 : 0;
      request.sampling.stop_token_ids = {};
      if (id % 4 == 1) request.sampling.temperature = 1.0;
      if (id % 4 == 2) request.sampling.logit_bias = {{3, 1.0F}};
      if (id % 4 == 3 && !ahead) request.sampling.presence_penalty = 0.5;
      if (id % 5 == 0) request.sampling.logprobs = 5;
      scheduler.add(id, std::move(request), id, 0);
    }
    const auto step = [&] {
      const scheduler::StepPlan& plan = scheduler.schedule(0);
      ASSERT_TRUE((*runner)->submit(plan));
      if ((*runner)->num_in_flight() > (ahead ? 1 : 0)) {
        const FinishedStep finished = (*runner)->wait();
        scheduler.update(*finished.plan, *finished.result);
        scheduler.clear_outcomes();
      }
    };
    for (int i = 0; i < 150; ++i) step();
    allocations = 0;
    counting = true;
    for (int i = 0; i < 100; ++i) step();
    counting = false;
    EXPECT_EQ(scheduler.stats().num_running, 16);
    EXPECT_EQ(allocations, 0) << "ahead " << ahead;
  }
}

}  // namespace
}  // namespace lockstep::engine
