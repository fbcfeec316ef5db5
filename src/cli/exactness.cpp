// SPDX-License-Identifier: Apache-2.0
#include "cli/exactness.h"

#include <algorithm>
#include <bit>

#include "base/random.h"
#include "kernels/table.h"

namespace lockstep::cli {
namespace {

/// Prompts begin alike in pairs, so that a prefix cache has something to find.
std::vector<int32_t> prompt_ids(int64_t length, uint32_t family, int64_t vocab_size) {
  std::vector<int32_t> ids(static_cast<size_t>(length));
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto draw = philox4x32({static_cast<uint32_t>(i), 1, 0, 0}, {family, 0})[0];
    ids[i] = static_cast<int32_t>(draw % static_cast<uint64_t>(vocab_size));
  }
  return ids;
}

bool same_floats(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

bool same_logprobs(const request::TokenLogprobs& a, const request::TokenLogprobs& b) {
  if (!same_floats(a.logprob, b.logprob) || a.top.size() != b.top.size()) return false;
  for (size_t i = 0; i < a.top.size(); ++i) {
    if (a.top[i].first != b.top[i].first || !same_floats(a.top[i].second, b.top[i].second)) return false;
  }
  return true;
}

class CaseList {
 public:
  explicit CaseList(const EngineFlags& base) : base_(base) {}

  ExactnessCase& add(std::string axis, std::string variant, const std::function<void(EngineFlags&)>& change = {}) {
    ExactnessCase& made = cases_.emplace_back();
    made.axis = std::move(axis);
    made.variant = std::move(variant);
    made.flags = base_;
    if (change) change(made.flags);
    return made;
  }
  std::vector<ExactnessCase> take() { return std::move(cases_); }

 private:
  const EngineFlags& base_;
  std::vector<ExactnessCase> cases_;
};

void add_batch_cases(CaseList& list) {
  list.add("batch", "all together");
  list.add("order", "reversed").order = ExactnessCase::Order::kReversed;
  for (const int64_t rows : {2, 5}) {
    list.add("batch", fmt::format("{} at once", rows), [rows](EngineFlags& f) { f.engine.max_num_seqs = rows; });
  }
  list.add("async", "off", [](EngineFlags& f) { f.engine.async_scheduling = false; });
  list.add("prefix cache", "off", [](EngineFlags& f) { f.engine.enable_prefix_caching = false; });
  list.add("prefix cache", "warm", [](EngineFlags& f) { f.engine.enable_prefix_caching = true; }).order =
      ExactnessCase::Order::kTwice;
}

void add_chunk_cases(CaseList& list, bool quick) {
  for (const int64_t chunk : {1, 7, 64}) {
    auto& made = list.add("chunk size", fmt::format("{} token{}", chunk, chunk == 1 ? "" : "s"),
                          [chunk](EngineFlags& f) { f.engine.long_prefill_token_threshold = chunk; });
    if (chunk == 1 && quick) made.max_requests = 6;
  }
  list.add("token budget", "16", [](EngineFlags& f) {
    f.engine.max_num_batched_tokens = 16;
    f.engine.max_num_seqs = std::min<int64_t>(f.engine.max_num_seqs, 16);
  });
  for (const int64_t size : {16, 32, 64, 128, 256}) {
    list.add("block size", fmt::format("{}", size), [size](EngineFlags& f) { f.engine.block_size = size; });
  }
}

void add_machine_cases(CaseList& list, bool quick) {
  for (const int threads : {1, 2, 3, 5}) {
    list.add("threads", fmt::format("{}", threads), [threads](EngineFlags& f) { f.threads = threads; });
  }
  for (const char* isa : {"ref", "avx2", "avx512", "avx512vnni", "avx512bf16"}) {
    if (!kernels::select_kernels(isa)) continue;
    auto& made = list.add("instruction set", isa);
    made.isa = isa;
    if (quick && made.isa == "ref") made.max_requests = 4;
  }
}

constexpr int64_t kSharedPrefix = 40;
constexpr int64_t kLongestTail = 30;
constexpr int64_t kSharedMaxTokens = 72;

/// The cache's and the scheduler's axes, over requests that come and go at random.
void add_load_cases(CaseList& list) {
  using Order = ExactnessCase::Order;
  const auto add = [&](const char* axis, const char* variant, Order order,
                       const std::function<void(EngineFlags&)>& change) {
    ExactnessCase& made = list.add(axis, variant, change);
    made.order = order;
    made.shared_prefixes = true;
    return &made;
  };
  add("arrival", "64 at random", Order::kAtRandomTimes, {});
  add("arrival", "cache off", Order::kAtRandomTimes, [](EngineFlags& f) { f.engine.enable_prefix_caching = false; });
  add("arrival", "async off", Order::kAtRandomTimes, [](EngineFlags& f) { f.engine.async_scheduling = false; });
  add("prefix cache", "partly warm", Order::kPartlyWarm, {});
  // The largest request's blocks and a few more: rows that grow find none left. Small blocks and many rows, whatever
  // the caller chose, so that it comes to that.
  const auto small_pool = [](EngineFlags& f) {
    f.engine.block_size = 16;
    f.engine.max_num_seqs = std::max<int64_t>(f.engine.max_num_seqs, 16);
    f.engine.max_num_batched_tokens = std::max<int64_t>(f.engine.max_num_batched_tokens, f.engine.max_num_seqs);
    f.engine.kv_cache_memory = 0;
    f.engine.num_kv_blocks = (kSharedPrefix + kLongestTail + kSharedMaxTokens) / f.engine.block_size + 6;
  };
  add("preemption", "cache on", Order::kAtRandomTimes, small_pool)->must_preempt = true;
  add("preemption", "cache off", Order::kAtRandomTimes, [=](EngineFlags& f) {
    small_pool(f);
    f.engine.enable_prefix_caching = false;
  })->must_preempt = true;
  add("preemption", "async off", Order::kAtRandomTimes, [=](EngineFlags& f) {
    small_pool(f);
    f.engine.async_scheduling = false;
  })->must_preempt = true;
}

}  // namespace

std::vector<request::Request> shared_prefix_requests(int64_t vocab_size, int64_t max_model_len) {
  std::vector<request::Request> requests;
  if (max_model_len < kSharedPrefix + kLongestTail + kSharedMaxTokens) return requests;
  for (uint32_t i = 0; i < 64; ++i) {
    request::Request request;
    request.prompt_token_ids = prompt_ids(kSharedPrefix, 1000 + i % 4, vocab_size);
    const std::vector<int32_t> tail = prompt_ids(1 + i * 7 % kLongestTail, 2000 + i, vocab_size);
    request.prompt_token_ids.insert(request.prompt_token_ids.end(), tail.begin(), tail.end());
    request.sampling.max_tokens = 24 + i * 5 % (kSharedMaxTokens - 24);
    request.sampling.ignore_eos = true;
    request.sampling.logprobs = 2;
    request.sampling.seed = i;
    if (i % 4 == 3) request.sampling.temperature = 0.9;
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<request::Request> exactness_requests(int64_t vocab_size, int64_t max_model_len, bool quick) {
  const std::vector<int64_t> lengths =
      quick ? std::vector<int64_t>{1, 2, 15, 16, 17, 31, 33, 40, 48, 64, 65, 80, 96, 100, 129, 150}
            : std::vector<int64_t>{1, 7, 16, 17, 64, 65, 127, 128, 129, 255, 300, 400, 511, 513, 600, 700};
  const int64_t max_tokens = quick ? 12 : 32;
  std::vector<request::Request> requests;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const int64_t length = std::min(lengths[i], max_model_len - max_tokens);
    if (length < 1) continue;
    request::Request request;
    request.prompt_token_ids = prompt_ids(length, static_cast<uint32_t>(i / 2), vocab_size);
    request.sampling.max_tokens = max_tokens;
    request.sampling.ignore_eos = true;
    request.sampling.logprobs = 3;
    request.sampling.seed = i;
    if (i % 3 == 2) {
      request.sampling.temperature = 0.8;
      request.sampling.top_p = 0.95;
      request.sampling.top_k = i % 2 == 0 ? 40 : 0;
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<ExactnessCase> exactness_cases(const EngineFlags& flags, bool quick) {
  CaseList list(flags);
  add_batch_cases(list);
  add_chunk_cases(list, quick);
  add_machine_cases(list, quick);
  add_load_cases(list);
  return list.take();
}

bool same_bits(const RequestResult& a, const RequestResult& b) {
  return a.finish_reason == b.finish_reason && a.token_ids == b.token_ids && a.logprobs.size() == b.logprobs.size() &&
         std::equal(a.logprobs.begin(), a.logprobs.end(), b.logprobs.begin(), same_logprobs);
}

}  // namespace lockstep::cli
