// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/test_support.h"

namespace lockstep::ops {
namespace {

using testing::Engine;
using testing::Random;

struct Shape {
  int64_t heads = 4, kv_heads = 2, dim = 16;
  DType dtype = DType::kBF16;
};
constexpr float kScale = 0.3f;

/// Queries, keys and values of all positions of one sequence, as three parts of one row.
struct Sequence {
  int64_t length;
  std::vector<float> qkv;  // [length][(heads + 2 kv_heads) * dim]
};

Sequence random_sequence(const Shape& shape, int64_t length, uint32_t seed) {
  return {length, Random(seed).normals(length * (shape.heads + 2 * shape.kv_heads) * shape.dim)};
}

/// Runs sequences through a paged pool, step by step; every page starts as NaN and the pages are dealt in a random
/// order.
class Runner {
 public:
  Runner(Engine& engine, const Shape& shape, const std::vector<Sequence>& sequences, int64_t block_size, uint32_t seed)
      : engine_(engine), shape_(shape), sequences_(sequences) {
    kv_ = {1, shape.kv_heads, shape.dim, block_size, 3, shape.dtype};
    int64_t longest = 0;
    for (const Sequence& s : sequences) {
      kv_.num_blocks += (s.length + block_size - 1) / block_size;
      longest = std::max(longest, s.length);
      outputs.emplace_back(static_cast<size_t>(s.length * shape.heads * shape.dim), testing::kNaN);
    }
    max_blocks_ = (longest + block_size - 1) / block_size + 1;
    pool_.assign(static_cast<size_t>(kv_.total_bytes()), std::byte{0xff});
    deal_pages(seed);
    auto scratch = AttentionScratch::create(engine.pool.size(), static_cast<int64_t>(sequences.size()) + 1, longest,
                                            longest, shape.heads, shape.dim);
    EXPECT_TRUE(scratch.has_value());
    scratch_ = std::move(*scratch);
    done_.assign(sequences.size(), 0);
  }

  /// One step: the next tokens[i] tokens of sequence order[i]. With `idle`, a row with slots of -1 goes first.
  void step(const std::vector<size_t>& order, const std::vector<int64_t>& tokens, bool idle = false) {
    std::vector<int32_t> query_lens, seq_lens, offsets = {0}, table, slots;
    std::vector<float> qkv;
    const int64_t width = (shape_.heads + 2 * shape_.kv_heads) * shape_.dim;
    if (idle) {
      query_lens.push_back(2);
      seq_lens.push_back(2);
      offsets.push_back(2);
      table.insert(table.end(), static_cast<size_t>(max_blocks_), -1);
      slots.insert(slots.end(), 2, -1);
      qkv.insert(qkv.end(), static_cast<size_t>(2 * width), testing::kNaN);
    }
    for (size_t i = 0; i < order.size(); ++i) {
      const size_t s = order[i];
      query_lens.push_back(static_cast<int32_t>(tokens[i]));
      seq_lens.push_back(static_cast<int32_t>(done_[s] + tokens[i]));
      offsets.push_back(offsets.back() + static_cast<int32_t>(tokens[i]));
      table.insert(table.end(), tables_[s].begin(), tables_[s].end());
      for (int64_t p = done_[s]; p < done_[s] + tokens[i]; ++p) {
        slots.push_back(static_cast<int32_t>(tables_[s][static_cast<size_t>(p / kv_.block_size)] * kv_.block_size +
                                             p % kv_.block_size));
      }
      const float* from = sequences_[s].qkv.data() + done_[s] * width;
      qkv.insert(qkv.end(), from, from + tokens[i] * width);
    }
    run(query_lens, seq_lens, offsets, table, slots, qkv);
    for (size_t i = 0; i < order.size(); ++i) collect(order[i], tokens[i], offsets[i + (idle ? 1 : 0)]);
    for (int64_t i = 0; idle && i < 2 * shape_.heads * shape_.dim; ++i)
      EXPECT_TRUE(std::isnan(out_[static_cast<size_t>(i)]));
  }

  /// Everything, each sequence in chunks of `chunk` tokens, all sequences together.
  void run_all(int64_t chunk, bool reversed = false) {
    for (bool more = true; more;) {
      std::vector<size_t> order;
      std::vector<int64_t> tokens;
      for (size_t i = 0; i < sequences_.size(); ++i) {
        const size_t s = reversed ? sequences_.size() - 1 - i : i;
        if (done_[s] == sequences_[s].length) continue;
        order.push_back(s);
        tokens.push_back(std::min(chunk, sequences_[s].length - done_[s]));
      }
      more = !order.empty();
      if (more) step(order, tokens);
    }
    expect_free_pages_poisoned();
  }

  void expect_free_pages_poisoned() const {
    const int64_t bytes = kv_.bytes_per_block() / 2;
    for (int64_t page : free_pages_) {
      for (int64_t half : {int64_t{0}, kv_.total_bytes() / 2}) {
        const auto* at = pool_.data() + half + page * bytes;
        EXPECT_TRUE(std::all_of(at, at + bytes, [](std::byte b) { return b == std::byte{0xff}; })) << "page " << page;
      }
    }
  }

  std::vector<std::vector<float>> outputs;  // per sequence [length][heads * dim]

 private:
  void deal_pages(uint32_t seed) {
    std::vector<int32_t> pages(static_cast<size_t>(kv_.num_blocks));
    std::iota(pages.begin(), pages.end(), 0);
    Random random(seed);
    for (size_t i = pages.size() - 1; i > 0; --i)
      std::swap(pages[i], pages[static_cast<size_t>(random.below(static_cast<int64_t>(i) + 1))]);
    size_t next = 0;
    for (const Sequence& s : sequences_) {
      std::vector<int32_t> row(static_cast<size_t>(max_blocks_), -1);
      for (int64_t b = 0; b < (s.length + kv_.block_size - 1) / kv_.block_size; ++b)
        row[static_cast<size_t>(b)] = pages[next++];
      tables_.push_back(row);
    }
    free_pages_.assign(pages.begin() + static_cast<int64_t>(next), pages.end());
  }

  void run(const std::vector<int32_t>& query_lens, const std::vector<int32_t>& seq_lens,
           const std::vector<int32_t>& offsets, const std::vector<int32_t>& table, const std::vector<int32_t>& slots,
           const std::vector<float>& qkv) {
    const auto tokens = static_cast<int64_t>(slots.size());
    const View<const float> all = testing::view(qkv, tokens, (shape_.heads + 2 * shape_.kv_heads) * shape_.dim);
    const int64_t q_width = shape_.heads * shape_.dim, kv_width = shape_.kv_heads * shape_.dim;
    const KvLayer layer = {pool_.data(), pool_.data() + kv_.total_bytes() / 2};
    store_kv(engine_.ctx, kv_, layer, testing::view1(slots), all.columns(q_width, kv_width),
             all.columns(q_width + kv_width, kv_width));
    const AttentionRows rows = {
        testing::view1(query_lens), testing::view1(seq_lens), testing::view1(offsets),
        View<const int32_t>(table.data(), {static_cast<int64_t>(query_lens.size()), max_blocks_}),
        testing::view1(slots)};
    out_.assign(static_cast<size_t>(tokens * q_width), testing::kNaN);
    attend(engine_.ctx, kv_, layer, rows, kScale, shape_.heads, all.columns(0, q_width), scratch_,
           View<float>(out_.data(), {tokens, q_width}));
  }

  void collect(size_t s, int64_t tokens, int32_t offset) {
    const int64_t width = shape_.heads * shape_.dim;
    std::copy_n(out_.begin() + offset * width, tokens * width, outputs[s].begin() + done_[s] * width);
    done_[s] += tokens;
  }

  Engine& engine_;
  Shape shape_;
  std::vector<Sequence> sequences_;
  step::KvGeometry kv_;
  int64_t max_blocks_ = 0;
  std::vector<std::byte> pool_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<int32_t> free_pages_;
  std::vector<int64_t> done_;
  AttentionScratch scratch_;
  std::vector<float> out_;
};

float rounded(const Shape& shape, float x) { return shape.dtype == DType::kBF16 ? bf16_to_f32(f32_to_bf16(x)) : x; }

/// Softmax attention of one query head in double.
std::vector<double> naive(const Shape& shape, const Sequence& s, int64_t position, int64_t head) {
  const int64_t width = (shape.heads + 2 * shape.kv_heads) * shape.dim;
  const int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const float* q = s.qkv.data() + position * width + head * shape.dim;
  std::vector<double> weights, out(static_cast<size_t>(shape.dim));
  double total = 0;
  for (int64_t p = 0; p <= position; ++p) {
    const float* k = s.qkv.data() + p * width + (shape.heads + kv_head) * shape.dim;
    double score = 0;
    for (int64_t d = 0; d < shape.dim; ++d) score += double{q[d]} * kScale * rounded(shape, k[d]);
    weights.push_back(std::exp(score));
    total += weights.back();
  }
  for (int64_t p = 0; p <= position; ++p) {
    const float* v = s.qkv.data() + p * width + (shape.heads + shape.kv_heads + kv_head) * shape.dim;
    for (int64_t d = 0; d < shape.dim; ++d)
      out[static_cast<size_t>(d)] += weights[static_cast<size_t>(p)] / total * rounded(shape, v[d]);
  }
  return out;
}

TEST(AttentionTest, EqualsSoftmaxInDouble) {
  // Groups of 1, 2, 5, 7 and 20 query heads to a kv head, and odd head widths.
  const Shape shapes[] = {{3, 3, 64, DType::kF32},
                          {4, 2, 16, DType::kBF16},
                          {10, 2, 24, DType::kBF16},
                          {14, 2, 18, DType::kF32},
                          {20, 1, 32, DType::kBF16}};
  for (const kernels::KernelTable* table : testing::all_tables()) {
    Engine engine(table, 2);
    for (const Shape& shape : shapes) {
      const std::vector<Sequence> sequences = {random_sequence(shape, 530, 1), random_sequence(shape, 33, 2)};
      Runner runner(engine, shape, sequences, 32, 3);
      runner.run_all(600);
      for (size_t s = 0; s < sequences.size(); ++s) {
        for (int64_t position : {int64_t{0}, int64_t{17}, sequences[s].length - 1}) {
          for (int64_t head = 0; head < shape.heads; ++head) {
            const std::vector<double> expected = naive(shape, sequences[s], position, head);
            for (int64_t d = 0; d < shape.dim; ++d) {
              ASSERT_NEAR(runner.outputs[s][static_cast<size_t>((position * shape.heads + head) * shape.dim + d)],
                          expected[static_cast<size_t>(d)], 1e-5)
                  << table->isa << " heads " << shape.heads << "/" << shape.kv_heads << " position " << position;
            }
          }
        }
      }
    }
  }
}

struct Variant {
  int threads;
  int64_t block_size, chunk;
  bool reversed;
};

void expect_same_bits_everywhere(const Shape& shape) {
  std::vector<Sequence> sequences;
  for (int64_t length : {1100, 1, 513, 17, 512})
    sequences.push_back(random_sequence(shape, length, static_cast<uint32_t>(length)));
  std::vector<std::vector<float>> expected;
  for (const Sequence& s : sequences) {  // each alone, in one chunk, by the reference
    Engine engine(*kernels::select_kernels("ref"), 1);
    Runner runner(engine, shape, {s}, 16, 5);
    runner.run_all(s.length);
    expected.push_back(runner.outputs[0]);
  }
  const Variant variants[] = {{1, 16, 1100, false}, {2, 16, 1, true},    {3, 32, 7, false}, {5, 64, 129, true},
                              {2, 128, 512, false}, {3, 256, 400, true}, {1, 256, 1, false}};
  for (const kernels::KernelTable* table : testing::all_tables()) {
    for (const Variant& variant : variants) {
      if (table->isa == "ref" && variant.chunk != 129) continue;  // slow
      Engine engine(table, variant.threads);
      Runner runner(engine, shape, sequences, variant.block_size, 11);
      runner.run_all(variant.chunk, variant.reversed);
      for (size_t s = 0; s < sequences.size(); ++s) {
        testing::expect_same_bits(
            runner.outputs[s], expected[s],
            std::string(table->isa) + " chunk " + std::to_string(variant.chunk) + " sequence " + std::to_string(s));
      }
    }
  }
}

TEST(AttentionTest, SameBitsForAnyBatchChunkBlockThreadsTableBf16) {
  expect_same_bits_everywhere({4, 2, 16, DType::kBF16});
}
TEST(AttentionTest, SameBitsForAnyBatchChunkBlockThreadsTableF32GroupOfFive) {
  expect_same_bits_everywhere({5, 1, 18, DType::kF32});
}

TEST(AttentionTest, OneLongRowIsCutBySegmentsWithTheSameBits) {
  const Shape shape = {6, 1, 32, DType::kBF16};
  const std::vector<Sequence> sequences = {random_sequence(shape, 2100, 21), random_sequence(shape, 40, 22)};
  Engine one(*kernels::select_kernels(""), 1);
  Runner expected(one, shape, sequences, 16, 1);
  expected.run_all(2100);
  for (int threads : {2, 3, 5}) {
    Engine engine(*kernels::select_kernels(""), threads);
    Runner runner(engine, shape, sequences, 64, 2);
    runner.step({0, 1}, {2080, 20});
    // Decode and verify rows of one and several tokens, an idle row and a mid-prompt chunk share steps.
    runner.step({0}, {1});
    runner.step({0, 1}, {8, 3}, /*idle=*/true);
    runner.step({0, 1}, {3, 1});
    runner.step({1, 0}, {16, 8});
    testing::expect_same_bits(runner.outputs[0], expected.outputs[0], "long row");
    testing::expect_same_bits(runner.outputs[1], expected.outputs[1], "short row");
    runner.expect_free_pages_poisoned();
  }
}

TEST(AttentionTest, NaNStaysInItsRow) {
  const Shape shape;
  std::vector<Sequence> sequences = {random_sequence(shape, 40, 31), random_sequence(shape, 40, 32)};
  Engine engine(*kernels::select_kernels(""), 2);
  Runner clean(engine, shape, sequences, 16, 1);
  clean.run_all(40);
  sequences[1].qkv[5] = testing::kNaN;  // a query value of position 0
  Runner runner(engine, shape, sequences, 16, 1);
  runner.run_all(40);
  testing::expect_same_bits(runner.outputs[0], clean.outputs[0], "the other row");
  EXPECT_TRUE(std::isnan(runner.outputs[1][0]));
}

TEST(AttentionTest, ScratchIsBoundedForManyLongRows) {
  // 14B shape, 16 rows of 40,960 tokens, 64 threads.
  const auto scratch = AttentionScratch::create(64, 16, 4096, 40960, 40, 128);
  ASSERT_TRUE(scratch.has_value());
  EXPECT_LT(scratch->bytes(), int64_t{64} << 20);
}

}  // namespace
}  // namespace lockstep::ops
