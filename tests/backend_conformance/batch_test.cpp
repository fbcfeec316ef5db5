// SPDX-License-Identifier: Apache-2.0
// Runtime batch over capacity buffers: every row past the prefix of every buffer and every free page is poisoned; ids
// and logprob bits are those of each request alone, and the poison stays.
#include <optional>
#include <set>

#include "support.h"

namespace lockstep::conformance {
namespace {

/// Poisons buffers and pages around every step of a generation and checks that only what a step declares is written.
class Sentinels {
 public:
  Sentinels(Engine& engine, uint32_t word) : engine_(engine), word_(word) {}

  GenerateOptions options() {
    GenerateOptions out = engine_.options();
    out.page_seed = 17;
    out.on_pages = [this](const std::vector<int32_t>& used) { poison_pages(used); };
    out.before_step = [this](StagedStep& staged, const step::StepOutputs& views) {
      for (const auto& use : engine_.driver->uses(views)) subject().fill(use.whole, word_);
      guarded_.emplace(staged);
    };
    out.after_step = [this](const StagedStep& staged, const step::StepOutputs& views) {
      guarded_.reset();
      for (const auto& use : engine_.driver->uses(views)) expect_tail(use);
      expect_columns(staged, views);
    };
    return out;
  }

  /// A read of a protected page has been a fault already; this finds writes where pages can't be protected.
  void expect_free_pages_untouched() {
    for (int64_t block = 0; block < engine_.setup.num_blocks; ++block) {
      if (used_.contains(static_cast<int32_t>(block))) continue;
      ASSERT_TRUE(subject().block_holds(*engine_.backend, block, word_)) << "free page " << block << " was written";
    }
  }

 private:
  /// Pages in use start as poison too: slots past a row's length are never read.
  void poison_pages(const std::vector<int32_t>& used) {
    used_.insert(used.begin(), used.end());
    for (int64_t block = 0; block < engine_.setup.num_blocks; ++block) {
      subject().fill_block(*engine_.backend, block, word_);
      if (!used_.contains(static_cast<int32_t>(block))) subject().protect_block(*engine_.backend, block);
    }
  }

  void expect_tail(const StepDriver::BufferUse& use) {
    std::vector<uint32_t> words(static_cast<size_t>(use.whole.elements()));
    ASSERT_TRUE(
        engine_.backend->read(use.whole, words.data(), static_cast<int64_t>(words.size() * sizeof(uint32_t))).ok());
    for (size_t i = static_cast<size_t>(use.used); i < words.size(); ++i) {
      ASSERT_EQ(words[i], word_) << "element " << i << " past a prefix of " << use.used << " was written";
    }
  }

  /// Columns past a row's sampled positions are untouched.
  void expect_columns(const StagedStep& staged, const step::StepOutputs& views) {
    std::vector<uint32_t> ids(static_cast<size_t>(views.sampled_ids.elements()));
    ASSERT_TRUE(
        engine_.backend->read(views.sampled_ids, ids.data(), static_cast<int64_t>(ids.size() * sizeof(uint32_t))).ok());
    for (size_t row = 0; row < staged.sample_counts.size(); ++row) {
      for (auto column = static_cast<size_t>(staged.sample_counts[row]); column < step::kTokenWidth; ++column) {
        ASSERT_EQ(ids[row * step::kTokenWidth + column], word_) << "row " << row << " column " << column;
      }
    }
  }

  Engine& engine_;
  uint32_t word_;
  std::set<int32_t> used_;
  std::optional<GuardedArgs> guarded_;
};

void run_with_sentinels(const std::string& model, int64_t capacity, const std::vector<int64_t>& batches,
                        DType kv_dtype) {
  EngineSetup setup = default_setup(model);
  setup.shape.max_num_seqs = capacity;
  setup.shape.max_num_batched_tokens = std::max<int64_t>(256, 2 * capacity);
  setup.shape.kv_dtype = kv_dtype;
  setup.num_blocks = 8 + 3 * capacity;
  Engine engine = make_engine(setup);
  const std::vector<Request> requests = make_requests(engine, capacity, 37, 4, 5);
  const std::vector<Stream> expected = alone(engine, requests);
  for (const int64_t batch : batches) {
    const auto count = static_cast<std::ptrdiff_t>(batch);
    const std::vector<Request> some(requests.begin(), requests.begin() + count);
    for (const uint32_t word : kPoisons) {
      SCOPED_TRACE(model + ", B = " + std::to_string(batch));
      Sentinels sentinels(engine, word);
      const auto streams = engine.generate(some, sentinels.options());
      expect_same_bits(streams, {expected.begin(), expected.begin() + count}, "with sentinels");
      sentinels.expect_free_pages_untouched();
    }
  }
}

TEST(Sentinels, SmallBatchesOnEveryModel) {
  for (const std::string& model : subject().models()) run_with_sentinels(model, 5, {1, 3, 5}, DType::kBF16);
}

TEST(Sentinels, BatchesOfOneToSeventeen) {
  std::vector<int64_t> batches;
  for (int64_t b = 1; b <= 17; ++b) batches.push_back(b);
  run_with_sentinels(subject().models().front(), 17, batches, DType::kBF16);
}

TEST(Sentinels, LargeBatches) { run_with_sentinels(subject().models().front(), 256, {64, 256}, DType::kF32); }

/// Counts the steps in which decode rows run beside a chunk that ends in mid-prompt, and the batch sizes seen.
struct StepMix {
  int64_t decode_beside_chunk = 0;
  std::set<int64_t> batches;

  void count(const StagedStep& staged) {
    const auto rows = staged.sample_counts.size();
    const auto decode_rows = static_cast<size_t>(staged.args.token_ids.empty() ? 0 : staged.args.token_ids.extent(0));
    batches.insert(static_cast<int64_t>(rows));
    for (size_t row = decode_rows; row < rows; ++row) {
      if (decode_rows > 0 && staged.sample_counts[row] == 0) {
        ++decode_beside_chunk;
        return;
      }
    }
  }
};

TEST(Batch, StaggeredHistoriesAreThoseOfEachAlone) {
  EngineSetup setup = default_setup(subject().models().front());
  setup.shape.max_num_batched_tokens = 64;  // forces mid-prompt chunks beside decode rows
  setup.num_blocks = 400;
  Engine engine = make_engine(setup);
  std::vector<Request> requests = make_requests(engine, 16, 150, 128, 77);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].arrival = static_cast<int64_t>(i * 7 % 16 * 6);
  const std::vector<Stream> expected = alone(engine, requests);
  for (const Stream& stream : expected) ASSERT_EQ(stream.ids.size(), 128u);
  GenerateOptions options = engine.options();
  options.chunk = 24;
  options.page_seed = 3;
  for (const bool reverse : {false, true}) {
    StepMix mix;
    options.reverse = reverse;
    options.before_step = [&](StagedStep& staged, const step::StepOutputs&) { mix.count(staged); };
    expect_same_bits(engine.generate(requests, options), expected, reverse ? "staggered, reversed" : "staggered");
    EXPECT_GE(mix.decode_beside_chunk, 20) << "too few steps mix decode rows with mid-prompt chunks";
    EXPECT_GE(mix.batches.size(), 12u) << "too few batch sizes were seen";
  }
}

TEST(Batch, IdenticalRequestsGiveIdenticalStreams) {
  EngineSetup setup = default_setup(subject().models().front());
  setup.num_blocks = 600;
  Engine engine = make_engine(setup);
  Request request = make_requests(engine, 1, 1, 24, 1).front();
  request.prompt = random_ids(engine, 333, 9);
  const Stream expected = alone(engine, {request}).front();
  GenerateOptions options = engine.options();
  options.chunk = 100;
  for (const Stream& stream : engine.generate(std::vector<Request>(16, request), options)) {
    expect_same_bits(stream, expected, "one of sixteen");
  }
}

}  // namespace
}  // namespace lockstep::conformance
