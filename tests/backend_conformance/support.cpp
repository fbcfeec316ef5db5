// SPDX-License-Identifier: Apache-2.0
#include "support.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>

namespace lockstep::conformance {

std::vector<Stream> Engine::generate(const std::vector<Request>& requests, const GenerateOptions& options) {
  auto streams = backend::testing::generate(*driver, requests, options);
  EXPECT_TRUE(streams) << streams.error().to_string();
  return streams ? std::move(*streams) : std::vector<Stream>(requests.size());
}

StepResult Engine::run(const StagedStep& staged, const Ask& ask) {
  auto result = driver->run(staged, ask);
  EXPECT_TRUE(result) << result.error().to_string();
  if (result) return std::move(*result);
  StepResult empty;  // of the right shape, so that a failed test goes on
  empty.sampled_ids.resize(static_cast<size_t>(staged.rows() * step::kTokenWidth));
  empty.row_status.resize(static_cast<size_t>(staged.rows()), -1);
  return empty;
}

EngineSetup default_setup(const std::string& model) {
  EngineSetup out;
  out.model = model;
  out.shape.max_num_seqs = 16;
  out.shape.max_num_batched_tokens = 256;
  out.shape.max_model_len = 512;
  out.num_blocks = 160;
  return out;
}

Engine make_engine(const EngineSetup& setup) {
  Engine out;
  out.setup = setup;
  auto made = subject().make(setup);
  if (!made) {
    ADD_FAILURE() << setup.model << ": " << made.error().to_string();
    std::abort();  // nothing can be tested without a backend
  }
  out.backend = std::move(*made);
  out.driver = std::make_unique<StepDriver>(*out.backend, setup.shape);
  return out;
}

std::vector<int32_t> random_ids(const Engine& engine, int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int32_t> id(0, static_cast<int32_t>(engine.backend->capabilities().vocab_size) - 1);
  std::vector<int32_t> out(static_cast<size_t>(count));
  for (int32_t& one : out) one = id(random);
  return out;
}

std::vector<int32_t> pages(int32_t first, int32_t count) {
  std::vector<int32_t> out(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) out[static_cast<size_t>(i)] = first + i;
  return out;
}

std::vector<Request> make_requests(const Engine& engine, int64_t count, int64_t longest, int64_t max_tokens,
                                   uint32_t seed) {
  std::vector<Request> out;
  for (int64_t i = 0; i < count; ++i) {
    Request request;
    request.prompt = random_ids(engine, 1 + (i * 7 + seed) % longest, seed + static_cast<uint32_t>(i) * 31);
    request.max_tokens = max_tokens;
    request.logprobs_k = static_cast<int32_t>(i % 4);
    request.temperature = i % 2 == 0 ? 0.0f : 0.9f;
    request.seed = seed + static_cast<uint64_t>(i);
    out.push_back(std::move(request));
  }
  return out;
}

bool same_bits(const float* a, const float* b, int64_t count) {
  return count == 0 || std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0;
}

void expect_same_bits(const Stream& actual, const Stream& expected, const std::string& what) {
  EXPECT_EQ(actual.ids, expected.ids) << what;
  EXPECT_EQ(actual.top_ids, expected.top_ids) << what;
  const auto equal = [](const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && same_bits(a.data(), b.data(), static_cast<int64_t>(a.size()));
  };
  EXPECT_TRUE(equal(actual.logprobs, expected.logprobs)) << what << ": logprob bits differ";
  EXPECT_TRUE(equal(actual.top_logprobs, expected.top_logprobs)) << what << ": top logprob bits differ";
}

void expect_same_bits(const std::vector<Stream>& actual, const std::vector<Stream>& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_FALSE(expected[i].ids.empty()) << what;
    expect_same_bits(actual[i], expected[i], what + ", request " + std::to_string(i));
  }
}

std::vector<Stream> alone(Engine& engine, const std::vector<Request>& requests) {
  std::vector<Stream> out;
  for (const Request& request : requests) {
    Request now = request;
    now.arrival = 0;
    const std::vector<Request> one = {now};
    out.push_back(engine.generate(one).front());
  }
  return out;
}

GuardedArgs::GuardedArgs(StagedStep& staged) {
  step::StepArgs& args = staged.args;
  for (auto* view : {&args.token_ids, &args.input_ids, &args.token_source, &args.query_lens, &args.seq_lens,
                     &args.sample_counts, &args.block_table, &args.slot_mapping, &args.score_targets, &args.pooling,
                     &args.pooling_slot, &args.sampling.logprobs_k}) {
    guard(*view);
  }
  guard(args.sampling.temperature);
  guard(args.sampling.seed);
}

template <class T>
void GuardedArgs::guard(View<const T>& view) {
  if (view.empty()) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t bytes = static_cast<size_t>(view.size()) * sizeof(T);
  const size_t whole = (bytes + page - 1) / page * page;
  void* base = ::mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(base, MAP_FAILED);
  mappings_.emplace_back(base, whole + page);
  ASSERT_EQ(::mprotect(static_cast<std::byte*>(base) + whole, page, PROT_NONE), 0);
  auto* data = reinterpret_cast<T*>(static_cast<std::byte*>(base) + whole - bytes);
  std::memcpy(data, view.data(), bytes);
  ::mprotect(base, whole, PROT_READ);  // arguments are never written
  view =
      view.rank() == 1 ? View<const T>(data, {view.extent(0)}) : View<const T>(data, {view.extent(0), view.extent(1)});
}

GuardedArgs::~GuardedArgs() {
  for (const auto& [base, bytes] : mappings_) ::munmap(base, bytes);
}

}  // namespace lockstep::conformance
