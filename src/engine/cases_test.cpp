// SPDX-License-Identifier: Apache-2.0
// Public cases 28, 30, 31 and 32 at the level of the engine; 19 and 33 are in engine_test.cpp, 27 and 29 in the
// scheduler's.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <numeric>
#include <thread>

#include "backend/fake/fake_backend.h"
#include "engine/engine.h"
#include "engine/testing.h"

namespace lockstep::engine {
namespace {

using request::Event;
using request::FinishReason;
using request::Request;

struct Answer {
  std::vector<int32_t> tokens;
  FinishReason reason = FinishReason::kNone;
};

/// A submitted request; its answer comes with the last event.
struct Job {
  RequestHandle handle;
  std::future<Answer> answer;
  std::shared_ptr<std::atomic<int>> events = std::make_shared<std::atomic<int>>(0);
};

Job submit(Engine& engine, Request request) {
  Job job;
  auto promise = std::make_shared<std::promise<Answer>>();
  auto answer = std::make_shared<Answer>();
  job.answer = promise->get_future();
  auto handle = engine.submit(std::move(request), [promise, answer, events = job.events](const Event& event) {
    answer->tokens.insert(answer->tokens.end(), event.new_token_ids.begin(), event.new_token_ids.end());
    answer->reason = event.finish_reason;
    ++*events;
    if (event.finish_reason != FinishReason::kNone) promise->set_value(*answer);
  });
  EXPECT_TRUE(handle) << handle.error().message();
  if (handle) job.handle = std::move(*handle);
  return job;
}

Request prompt_of(std::vector<int32_t> ids, int64_t max_tokens) {
  Request request;
  request.prompt_token_ids = std::move(ids);
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

std::vector<int32_t> range(int64_t count, int32_t first) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) ids[static_cast<size_t>(i)] = static_cast<int32_t>((first + i) % 1000);
  return ids;
}

std::unique_ptr<Engine> make(const EngineOptions& options, double step_delay_s = 0) {
  backend::FakeOptions fake;
  fake.step_delay_s = step_delay_s;
  auto engine = Engine::create(backend::make_fake_backend(fake), options);
  EXPECT_TRUE(engine) << engine.error().message();
  return std::move(*engine);
}

void expect_solo(Job& job, const Request& request) {
  const Answer answer = job.answer.get();
  EXPECT_EQ(answer.reason, FinishReason::kLength);
  EXPECT_EQ(answer.tokens, solo_stream(request, 0, 1000, {}));
}

void expect_all_blocks_home(const Engine& engine) {
  EngineStats stats = engine.stats();
  for (int i = 0; i < 2000 && stats.num_running + stats.num_waiting > 0; ++i, stats = engine.stats()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (int i = 0; i < 2000 && stats.num_free_blocks != stats.num_blocks; ++i, stats = engine.stats()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(stats.num_free_blocks, stats.num_blocks);
}

TEST(Case28, CutOffAndSharingRequestsGiveEveryBlockBack) {
  EngineOptions options;
  options.max_num_seqs = 8;
  options.num_kv_blocks = 200;
  options.max_model_len = 512;
  auto engine = make(options);
  const auto prefix = range(64, 500);
  std::map<int, std::pair<Job, Request>> running;
  int next = 0;
  const auto start = [&] {
    std::vector<int32_t> ids = next % 2 == 0 ? prefix : std::vector<int32_t>();
    for (int32_t id : range(5 + next % 40, next * 7)) ids.push_back(id);
    const Request request = prompt_of(std::move(ids), 40);
    running.emplace(next, std::pair(submit(*engine, request), request));
    ++next;
  };
  while (next < 8) start();
  for (int done = 0; done < 200; ++done) {
    const int index = running.begin()->first;
    auto entry = std::move(running.begin()->second);
    running.erase(running.begin());
    if (index % 4 == 3) {
      {
        const RequestHandle gone = std::move(entry.first.handle);
      }  // the client is gone
    } else {
      expect_solo(entry.first, entry.second);
    }
    const EngineStats stats = engine->stats();
    EXPECT_LE(stats.num_blocks - stats.num_free_blocks, stats.num_blocks);
    if (next < 200) start();
  }
  expect_all_blocks_home(*engine);
  EXPECT_GT(engine->stats().prefix_cache_hits, 0);
}

TEST(Case30, ChunkEdgesChangeNothing) {
  for (const bool chunked : {true, false}) {
    EngineOptions options;
    options.max_num_seqs = 2;
    options.max_model_len = 2048;
    options.num_kv_blocks = 512;
    options.enable_chunked_prefill = chunked;
    options.enable_prefix_caching = false;
    if (chunked) options.max_num_batched_tokens = options.long_prefill_token_threshold = 128;
    auto engine = make(options);
    for (int64_t length : {127, 128, 129, 255, 256, 257, 1025}) {
      const Request request = prompt_of(range(length, 3), 8);
      Job job = submit(*engine, request);
      expect_solo(job, request);
    }
  }
}

TEST(Case31, CompanyDoesNotChangeAnAnswer) {
  EngineOptions options;
  options.max_model_len = 1024;
  options.num_kv_blocks = 1024;
  options.max_num_batched_tokens = options.long_prefill_token_threshold = 64;
  auto engine = make(options);
  std::vector<Request> requests;
  for (int32_t i = 0; i < 8; ++i) {
    auto ids = range(20, 40);
    ids[12] = 900 + i;
    requests.push_back(prompt_of(std::move(ids), 24));
  }
  for (const Request& request : requests) {
    Job job = submit(*engine, request);
    expect_solo(job, request);
  }
  for (const bool beside_prefill : {false, true}) {
    Job other;
    if (beside_prefill) other = submit(*engine, prompt_of(range(500, 7), 4));
    std::vector<Job> jobs;
    for (const Request& request : requests) jobs.push_back(submit(*engine, request));
    for (size_t i = 0; i < jobs.size(); ++i) expect_solo(jobs[i], requests[i]);
    if (beside_prefill) {
      EXPECT_EQ(other.answer.get().tokens.size(), 4U);
    }
  }
}

TEST(Case32, LeavingClientsEndTheirGenerationAndHarmNobody) {
  EngineOptions options;
  options.max_num_seqs = 2;
  options.max_model_len = 2048;
  options.num_kv_blocks = 1024;
  options.max_num_batched_tokens = options.long_prefill_token_threshold = 32;
  auto engine = make(options, 0.001);
  const Request lasting = prompt_of(range(600, 7), 30);  // prefill of 19 steps
  Job other = submit(*engine, lasting);
  {  // after two tokens
    Job job = submit(*engine, prompt_of(range(10, 1), 1000));
    while (*job.events < 2) std::this_thread::yield();
  }
  {
    Job job = submit(*engine, prompt_of(range(200, 2), 1000));
  }  // before the first token
  Job running = submit(*engine, prompt_of(range(10, 3), 1000));
  Job queued = submit(*engine, prompt_of(range(10, 4), 1000));
  queued.handle = RequestHandle();  // while it waits
  EXPECT_EQ(*queued.events, 0);
  running.handle = RequestHandle();
  expect_solo(other, lasting);
  expect_all_blocks_home(*engine);
  EXPECT_LT(engine->stats().generation_tokens, 500);
}

}  // namespace
}  // namespace lockstep::engine
