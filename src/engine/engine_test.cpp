// SPDX-License-Identifier: Apache-2.0
// The engine with its thread, from other threads.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include "backend/fake/fake_backend.h"
#include "engine/testing.h"

namespace lockstep::engine {
namespace {

using request::Event;
using request::FinishReason;
using request::Request;
using testing::HasSubstr;

Request prompt_of(int64_t count, int32_t first, int64_t max_tokens) {
  Request request;
  request.prompt_token_ids.resize(static_cast<size_t>(count));
  std::iota(request.prompt_token_ids.begin(), request.prompt_token_ids.end(), first);
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

/// Gathers the events of one request; wait() returns when the last one has come.
class Collector {
 public:
  EventCallback callback() {
    return [state = state_](Event event) {
      const std::lock_guard lock(state->mutex);
      state->tokens.insert(state->tokens.end(), event.new_token_ids.begin(), event.new_token_ids.end());
      state->seed = event.seed;
      ++state->events;
      if (event.finish_reason != FinishReason::kNone) state->reason = event.finish_reason;
      state->changed.notify_all();
    };
  }
  FinishReason wait() {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, std::chrono::seconds(30), [this] { return state_->reason != FinishReason::kNone; });
    return state_->reason;
  }
  void wait_for_events(int count) {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait_for(lock, std::chrono::seconds(30), [&] { return state_->events >= count; });
  }
  int events() const {
    const std::lock_guard lock(state_->mutex);
    return state_->events;
  }
  std::vector<int32_t> tokens() const {
    const std::lock_guard lock(state_->mutex);
    return state_->tokens;
  }
  uint64_t seed() const { return state_->seed; }

 private:
  struct State {
    mutable std::mutex mutex;
    std::condition_variable changed;
    std::vector<int32_t> tokens;
    int events = 0;
    uint64_t seed = 0;
    FinishReason reason = FinishReason::kNone;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

EngineOptions small() {
  EngineOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  options.max_model_len = 512;
  options.num_kv_blocks = 64;
  return options;
}

std::unique_ptr<Engine> make(EngineOptions options = small(), backend::FakeOptions fake = {}) {
  auto engine = Engine::create(backend::make_fake_backend(std::move(fake)), std::move(options));
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

void wait_until_idle(const Engine& engine) {
  for (int i = 0; i < 3000; ++i) {
    const EngineStats stats = engine.stats();
    if (stats.num_running + stats.num_waiting == 0 && stats.num_free_blocks == stats.num_blocks) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ADD_FAILURE() << "blocks did not come home";
}

TEST(Engine, ServesFromManyThreads) {
  auto engine = make();
  std::vector<std::thread> threads;
  for (int32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int32_t i = 0; i < 8; ++i) {
        Request request = prompt_of(5 + 7 * i, 100 * t + i, 20);
        if (i % 2 == 0) request.sampling.temperature = 1.0;
        Collector collector;
        auto handle = engine->submit(request, collector.callback());
        ASSERT_TRUE(handle);
        EXPECT_EQ(collector.wait(), FinishReason::kLength);
        EXPECT_EQ(collector.tokens(), solo_stream(request, collector.seed(), 1000, {}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  wait_until_idle(*engine);
  EXPECT_EQ(engine->stats().generation_tokens, 4 * 8 * 20);
}

TEST(Engine, RefusesAtOnce) {
  EngineOptions options = small();
  options.num_kv_blocks = 8;
  options.max_model_len = 256;
  auto engine = make(options);
  const auto refused = [&](Request request) {
    auto handle = engine->submit(std::move(request), [](Event) { ADD_FAILURE(); });
    EXPECT_FALSE(handle);
    return handle ? Status() : handle.error();
  };
  EXPECT_THAT(refused(prompt_of(0, 1, 1)).message(), HasSubstr("empty"));
  EXPECT_THAT(refused(prompt_of(250, 1, 7)).message(), HasSubstr("context of 256"));
  EXPECT_THAT(refused(prompt_of(2, 999, 1)).message(), HasSubstr("token id 1000"));
  EXPECT_THAT(refused(prompt_of(2, -1, 1)).message(), HasSubstr("token id -1"));
  EXPECT_THAT(refused(prompt_of(130, 1, 1)).message(), HasSubstr("KV pool"));  // case 19
  EXPECT_THAT(refused(prompt_of(100, 1, 100)).message(), HasSubstr("KV pool"));
  Request hot = prompt_of(2, 1, 1);
  hot.sampling.temperature = 3;
  EXPECT_EQ(refused(hot).code(), StatusCode::kInvalidArgument);
  Request late = prompt_of(2, 1, 1);
  late.timeout_s = 0;
  EXPECT_THAT(refused(late).message(), HasSubstr("timeout_s"));
  Collector collector;
  auto handle = engine->submit(prompt_of(5, 1, 5), collector.callback());
  EXPECT_EQ(collector.wait(), FinishReason::kLength);
}

TEST(Engine, ASurplusIsRefusedAndTheAdmittedFinish) {  // case 33
  EngineOptions options = small();
  options.max_num_seqs = 2;
  options.max_queued_requests = 4;
  backend::FakeOptions fake;
  fake.step_delay_s = 0.001;
  auto engine = make(options, fake);
  std::vector<Collector> collectors(64);
  std::vector<RequestHandle> handles;
  for (auto& collector : collectors) {
    auto handle = engine->submit(prompt_of(5, 1, 30), collector.callback());
    if (handle) {
      handles.push_back(std::move(*handle));
      EXPECT_LE(handles.size(), 6U);
    } else {
      EXPECT_EQ(handle.error().code(), StatusCode::kResourceExhausted);
    }
  }
  EXPECT_EQ(handles.size(), 6U);
  EXPECT_EQ(engine->stats().num_refused, 58);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(collectors[i].wait(), FinishReason::kLength);
}

TEST(Engine, QueuedTokensAreLimited) {
  EngineOptions options = small();
  options.max_num_seqs = 1;
  options.max_queued_tokens = 100;
  backend::FakeOptions fake;
  fake.step_delay_s = 0.002;
  auto engine = make(options, fake);
  std::vector<RequestHandle> handles;
  int refused = 0;
  for (int i = 0; i < 10; ++i) {
    auto handle = engine->submit(prompt_of(60, 1, 100), [](Event) {});
    if (handle)
      handles.push_back(std::move(*handle));
    else
      refused += handle.error().code() == StatusCode::kResourceExhausted ? 1 : 0;
  }
  EXPECT_GE(refused, 7);
  EXPECT_GE(handles.size(), 1U);
}

TEST(Engine, CancelEndsWithOneEvent) {
  backend::FakeOptions fake;
  fake.step_delay_s = 0.001;
  auto engine = make(small(), fake);
  Collector collector;
  auto handle = engine->submit(prompt_of(5, 1, 400), collector.callback());
  collector.wait_for_events(2);
  handle->cancel();
  EXPECT_EQ(collector.wait(), FinishReason::kCancelled);
  const int events = collector.events();
  handle->cancel();
  wait_until_idle(*engine);
  EXPECT_EQ(collector.events(), events);
}

TEST(Engine, NoEventComesAfterTheHandleIsGone) {
  backend::FakeOptions fake;
  fake.step_delay_s = 0.0005;
  auto engine = make(small(), fake);
  for (int i = 0; i < 20; ++i) {
    auto alive = std::make_unique<std::atomic<bool>>(true);
    std::atomic<int> events{0};
    auto handle = engine->submit(prompt_of(5, i, 400), [flag = alive.get(), &events](Event) {
      EXPECT_TRUE(flag->load());
      ++events;
    });
    ASSERT_TRUE(handle);
    while (i % 2 == 0 && events == 0) std::this_thread::yield();
    {
      const RequestHandle gone = std::move(*handle);
    }
    *alive = false;
  }
  wait_until_idle(*engine);
}

TEST(Engine, ACallbackMayDropItsOwnHandle) {
  auto engine = make();
  std::mutex mutex;
  std::unique_ptr<RequestHandle> handle;
  std::atomic<int> events{0};
  {
    const std::lock_guard lock(mutex);
    auto submitted = engine->submit(prompt_of(5, 1, 400), [&](Event) {
      ++events;
      const std::lock_guard inner(mutex);
      handle.reset();
    });
    handle = std::make_unique<RequestHandle>(std::move(*submitted));
  }
  wait_until_idle(*engine);
  EXPECT_EQ(events, 1);
}

TEST(Engine, DrainRefusesAndRunningOnesFinish) {
  backend::FakeOptions fake;
  fake.step_delay_s = 0.001;
  auto engine = make(small(), fake);
  EXPECT_TRUE(engine->healthy());
  Collector collector;
  auto handle = engine->submit(prompt_of(5, 1, 30), collector.callback());
  engine->drain();
  EXPECT_FALSE(engine->healthy());
  EXPECT_EQ(engine->submit(prompt_of(5, 1, 1), [](Event) {}).error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(collector.wait(), FinishReason::kLength);
}

TEST(Engine, DestructionCancelsWhatRuns) {
  backend::FakeOptions fake;
  fake.step_delay_s = 0.001;
  auto engine = make(small(), fake);
  Collector running, waiting;
  auto a = engine->submit(prompt_of(5, 1, 400), running.callback());
  std::vector<RequestHandle> more;
  for (int i = 0; i < 6; ++i) more.push_back(std::move(*engine->submit(prompt_of(5, 1, 400), waiting.callback())));
  running.wait_for_events(1);
  engine.reset();
  EXPECT_EQ(running.wait(), FinishReason::kCancelled);
  EXPECT_EQ(waiting.wait(), FinishReason::kCancelled);
  a->cancel();  // of an engine that is gone
}

TEST(Engine, WarmUpAndPoolErrorsAreReturned) {
  backend::FakeOptions fake;
  fake.warm_up_result = error(StatusCode::kResourceExhausted, "scratch");
  EXPECT_THAT(Engine::create(backend::make_fake_backend(fake), small()).error().message(), HasSubstr("scratch"));
  backend::FakeOptions full;
  full.kv_limit_bytes = 100;
  EXPECT_THAT(Engine::create(backend::make_fake_backend(full), small()).error().message(),
              HasSubstr("--num-kv-blocks"));
  EngineOptions bad = small();
  bad.max_num_seqs = 0;
  EXPECT_FALSE(Engine::create(backend::make_fake_backend({}), bad));
}

}  // namespace
}  // namespace lockstep::engine
