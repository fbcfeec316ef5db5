// SPDX-License-Identifier: Apache-2.0
// Random worlds: pools, block sizes, policies and limits of every kind, and random operations on them. After each
// operation the pool's integrity is checked, and every token that comes out is compared with what the fake model says
// to the request alone. LOCKSTEP_FUZZ_SEED=N runs one world again, LOCKSTEP_FUZZ_OPERATIONS=N sets how much is done.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>

#include "backend/fake/fake_backend.h"
#include "base/log.h"
#include "engine/core.h"
#include "engine/kv_sizing.h"
#include "engine/testing.h"

namespace lockstep::engine {
namespace {

using request::Event;
using request::FinishReason;
using request::Request;

constexpr int64_t kOperationsPerWorld = 4000;
constexpr int64_t kVocab = 40;

int64_t from_environment(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoll(value);
}

class World {
 public:
  explicit World(uint64_t seed) : random_(seed) {
    choose_options();
    backend_ = backend::make_fake_backend(fake_);
    backend::StepShape shape;
    shape.max_num_seqs = options_.max_num_seqs;
    shape.max_num_batched_tokens = options_.max_num_batched_tokens;
    shape.max_model_len = options_.max_model_len;
    shape.block_size = options_.block_size;
    EXPECT_TRUE(backend_->warm_up(shape).ok());
    EXPECT_TRUE(allocate_kv_pool(*backend_, options_, SystemMemoryProbe()));
    auto core = Core::create(*backend_, options_, [this] { return now_; });
    EXPECT_TRUE(core) << core.error().message();
    core_ = std::move(*core);
    limits_ = scheduler_options(options_);
    for (int i = 0; i < 4; ++i) prefixes_.push_back(random_ids(1 + below(options_.max_model_len - 8)));
  }

  void run(int64_t operations) {
    for (int64_t i = 0; i < operations && !testing::Test::HasFailure(); ++i) operation();
    for (int i = 0; i < 100000 && core_->busy() && !testing::Test::HasFailure(); ++i) step();
    EXPECT_FALSE(core_->busy());
    EXPECT_TRUE(live_.empty()) << live_.size() << " requests got no last event";
    const EngineStats stats = core_->stats();
    EXPECT_EQ(stats.num_free_blocks, stats.num_blocks);
  }

  int64_t num_finished = 0, num_preempted = 0, num_hits = 0;

 private:
  struct Live {
    std::vector<int32_t> expected;
    int64_t num_prompt = 0;
    size_t next = 0;
    bool ended_from_outside = false;
    bool has_deadline = false;
  };

  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  bool chance(int64_t percent) { return below(100) < percent; }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return *(values.begin() + below(static_cast<int64_t>(values.size())));
  }

  std::vector<int32_t> random_ids(int64_t count) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = static_cast<int32_t>(below(kVocab));
    return ids;
  }

  void choose_options() {
    fake_.vocab_size = kVocab;
    fake_.max_model_len = 64;
    fake_.block_sizes = {1, 2, 3, 4, 8, 16};
    if (chance(25)) fake_.batch_sizes = {1, 2, 5};
    if (chance(15)) fake_.fail_step = [](uint64_t id) { return id % 61 == 60; };
    if (chance(15)) fake_.non_finite = [](std::span<const int32_t> ids) { return ids.size() > 20 && ids.back() == 13; };
    options_.max_num_seqs = pick<int64_t>({1, 2, 3, 5, 8});
    options_.max_num_batched_tokens = std::max(options_.max_num_seqs, pick<int64_t>({1, 4, 9, 16, 33, 200}));
    options_.long_prefill_token_threshold = pick<int64_t>({1, 3, 16, 200});
    options_.max_model_len = 64;
    options_.block_size = pick<int64_t>({1, 2, 3, 4, 8, 16});
    options_.enable_chunked_prefill = chance(80);
    if (!options_.enable_chunked_prefill) options_.max_num_batched_tokens = 64 + options_.max_num_seqs;
    options_.enable_prefix_caching = chance(75);
    options_.async_scheduling = chance(60);
    options_.adaptive_budget = chance(50);
    options_.policy = chance(40) ? SchedulingPolicy::kPriority : SchedulingPolicy::kFcfs;
    options_.eos_token_ids = {7};
    const int64_t whole = (64 + options_.block_size - 1) / options_.block_size;
    options_.num_kv_blocks = 1 + below(whole * pick<int64_t>({1, 2, 4}));
  }

  Request random_request() {
    Request request;
    if (chance(60)) {
      const auto& prefix = prefixes_[static_cast<size_t>(below(4))];
      request.prompt_token_ids.assign(prefix.begin(), prefix.begin() + 1 + below(static_cast<int64_t>(prefix.size())));
    }
    const auto extra = random_ids(below(6));
    request.prompt_token_ids.insert(request.prompt_token_ids.end(), extra.begin(), extra.end());
    if (!last_stream_.empty() && chance(10)) request.prompt_token_ids = last_stream_;  // a conversation that goes on
    auto& sampling = request.sampling;
    sampling.max_tokens = 1 + below(24);
    sampling.ignore_eos = chance(50);
    if (chance(25)) sampling.temperature = 0.9;
    if (chance(15)) sampling.presence_penalty = 0.5;
    if (chance(10)) sampling.min_tokens = below(sampling.max_tokens + 1);
    if (chance(10)) sampling.stop_token_ids = {static_cast<int32_t>(below(kVocab))};
    if (chance(10)) sampling.prompt_logprobs = static_cast<int>(below(3));
    if (chance(10)) sampling.logprobs = static_cast<int>(below(4));
    if (chance(5) && sampling.prompt_logprobs) sampling.max_tokens = sampling.min_tokens = 0;
    if (chance(10)) request.timeout_s = 1.0 + static_cast<double>(below(40));
    if (chance(15)) request.cache_salt = chance(50) ? "red" : "blue";
    request.priority = static_cast<int32_t>(below(3));
    return request;
  }

  void operation() {
    const int64_t choice = below(100);
    if (choice < 25) {
      submit();
    } else if (choice < 29) {
      cancel();
    } else if (choice < 30) {
      core_->flush_prefix_cache();
    } else {
      step();
    }
    const Status status = core_->check();
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  void submit() {
    if (live_.size() >= 12) return;
    Request request = random_request();
    if (!scheduler::Scheduler::check_fits(request, limits_).ok()) return;
    const uint64_t id = ++last_id_;
    Live& live = live_[id];
    live.expected = solo_stream(request, id, kVocab, options_.eos_token_ids);
    live.num_prompt = static_cast<int64_t>(request.prompt_token_ids.size());
    live.has_deadline = request.timeout_s.has_value();
    core_->add(id, std::move(request), id, [this](const Event& event) { receive(event); });
  }

  void cancel() {
    if (live_.empty()) return;
    auto it = live_.begin();
    std::advance(it, below(static_cast<int64_t>(live_.size())));
    it->second.ended_from_outside = true;
    core_->finish(it->first, FinishReason::kCancelled);
  }

  void step() {
    now_ += 0.25;
    core_->step();
    num_preempted = core_->stats().num_preemptions;
    num_hits = core_->stats().prefix_cache_hits;
  }

  void receive(const Event& event) {
    const auto found = live_.find(event.request_id);
    ASSERT_NE(found, live_.end()) << "an event after the last of request " << event.request_id;
    Live& live = found->second;
    EXPECT_LT(event.num_cached_tokens, live.num_prompt);
    for (int32_t id : event.new_token_ids) {
      ASSERT_LT(live.next, live.expected.size()) << "too many tokens for request " << event.request_id;
      ASSERT_EQ(id, live.expected[live.next]) << "token " << live.next << " of request " << event.request_id;
      ++live.next;
    }
    if (event.finish_reason == FinishReason::kNone) return;
    ++num_finished;
    switch (event.finish_reason) {
      case FinishReason::kStop:
      case FinishReason::kLength:
        EXPECT_EQ(live.next, live.expected.size()) << "request " << event.request_id;
        last_stream_ = live.expected;
        break;
      case FinishReason::kError:
        EXPECT_TRUE(fake_.fail_step || fake_.non_finite) << event.error.to_string();
        break;
      case FinishReason::kDeadline:
        EXPECT_TRUE(live.has_deadline);
        break;
      default:
        EXPECT_TRUE(live.ended_from_outside);
    }
    live_.erase(found);
  }

  std::mt19937_64 random_;
  backend::FakeOptions fake_;
  EngineOptions options_;
  scheduler::SchedulerOptions limits_;
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<Core> core_;
  double now_ = 0;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Live> live_;
  std::vector<std::vector<int32_t>> prefixes_;
  std::vector<int32_t> last_stream_;
};

TEST(CoreFuzz, EveryStreamIsWhatTheModelSaysAlone) {
  set_log_level(LogLevel::kOff);
  const int64_t only = from_environment("LOCKSTEP_FUZZ_SEED", -1);
  const int64_t operations = from_environment("LOCKSTEP_FUZZ_OPERATIONS", 1'000'000);
  int64_t finished = 0, preempted = 0, hits = 0;
  for (int64_t seed = 0; seed * kOperationsPerWorld < operations; ++seed) {
    if (only >= 0 && seed != only) continue;
    SCOPED_TRACE("LOCKSTEP_FUZZ_SEED=" + std::to_string(seed));
    World world(static_cast<uint64_t>(seed));
    world.run(kOperationsPerWorld);
    if (HasFailure()) return;
    finished += world.num_finished;
    preempted += world.num_preempted;
    hits += world.num_hits;
  }
  set_log_level(LogLevel::kInfo);
  RecordProperty("finished", std::to_string(finished));
  if (only >= 0) return;
  EXPECT_GT(finished, operations / 50);
  EXPECT_GT(preempted, operations / 1000);
  EXPECT_GT(hits, operations / 100);
}

}  // namespace
}  // namespace lockstep::engine
