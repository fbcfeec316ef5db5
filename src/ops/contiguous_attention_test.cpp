// SPDX-License-Identifier: Apache-2.0
#include "ops/contiguous_attention.h"

#include <algorithm>
#include <cstring>

#include "ops/test_support.h"

namespace lockstep::ops {
namespace {

using testing::Engine;
using testing::Random;

constexpr float kScale = 0.3f;
constexpr int64_t kLengths[] = {1, 15, 16, 17, 511, 512, 513, 1030};
constexpr int64_t kRows = std::size(kLengths);
constexpr int64_t kMaxLength = 1030;

struct Shape {
  int64_t heads, kv_heads, dim;
  DType dtype;
};

/// One layer of both stores, filled alike step by step. Row r of a step is sequence r, its storage row kRows - 1 - r.
class Both {
 public:
  Both(Engine& engine, const Shape& shape, int64_t block_size)
      : engine_(engine), shape_(shape), max_blocks_((kMaxLength + block_size - 1) / block_size) {
    kv_ = {1, shape.kv_heads, shape.dim, block_size, kRows * max_blocks_, shape.dtype};
    pool_.assign(static_cast<size_t>(kv_.total_bytes()), std::byte{0xff});
    layer_ = {pool_.data(), pool_.data() + kv_.total_bytes() / 2};
    scratch_ =
        std::move(*AttentionScratch::create(engine.pool.size(), kRows, kMaxLength, kMaxLength, shape.heads, shape.dim));
    store = std::move(*ContiguousKv::create({.num_layers = 1,
                                             .num_rows = kRows,
                                             .num_heads = shape.heads,
                                             .num_kv_heads = shape.kv_heads,
                                             .head_dim = shape.dim,
                                             .max_model_len = kMaxLength,
                                             .dtype = shape.dtype,
                                             .threads = engine.pool.size()}));
    std::memset(store.k(0, 0, 0), 0xff, static_cast<size_t>(store.k(0, 1, 0) - store.k(0, 0, 0)) * kRows);
    std::memset(store.v(0, 0, 0), 0xff, static_cast<size_t>(store.v(0, 1, 0) - store.v(0, 0, 0)) * kRows);
    for (int32_t r = 0; r < kRows; ++r) {
      store_rows_.push_back(static_cast<int32_t>(kRows) - 1 - r);
      for (int64_t b = 0; b < max_blocks_; ++b) table_.push_back(static_cast<int32_t>(b * kRows + r));  // interleaved
    }
  }

  /// The next tokens[r] tokens of row r; 0 makes the row idle. Compares the two attentions' bits.
  void step(const std::vector<int64_t>& tokens, uint32_t seed) {
    std::vector<int32_t> query_lens, seq_lens, offsets = {0}, slots;
    for (size_t r = 0; r < tokens.size(); ++r) {
      const bool idle = tokens[r] == 0;
      query_lens.push_back(idle ? 1 : static_cast<int32_t>(tokens[r]));
      seq_lens.push_back(static_cast<int32_t>(done_[r]) + query_lens.back());
      offsets.push_back(offsets.back() + query_lens.back());
      for (int64_t p = done_[r]; p < seq_lens.back(); ++p) {
        const int64_t block = table_[r * static_cast<size_t>(max_blocks_) + static_cast<size_t>(p / kv_.block_size)];
        slots.push_back(idle ? -1 : static_cast<int32_t>(block * kv_.block_size + p % kv_.block_size));
      }
      done_[r] += tokens[r];
    }
    const int64_t total = offsets.back(), q_width = shape_.heads * shape_.dim, kv_width = shape_.kv_heads * shape_.dim;
    const std::vector<float> data = Random(seed).normals(total * (q_width + 2 * kv_width));
    const View<const float> all = testing::view(data, total, q_width + 2 * kv_width);
    const View<const float> k = all.columns(q_width, kv_width), v = all.columns(q_width + kv_width, kv_width);
    const AttentionRows rows = {
        testing::view1(query_lens), testing::view1(seq_lens), testing::view1(offsets),
        View<const int32_t>(table_.data(), {kRows, max_blocks_}).prefix(static_cast<int64_t>(tokens.size())),
        testing::view1(slots)};
    std::vector<float> expected(static_cast<size_t>(total * q_width), testing::kNaN), out = expected;
    store_kv(engine_.ctx, kv_, layer_, testing::view1(slots), k, v);
    attend(engine_.ctx, kv_, layer_, rows, kScale, shape_.heads, all.columns(0, q_width), scratch_,
           testing::view(expected, total, q_width));
    store_contiguous(engine_.ctx, store, 0, rows, testing::view1(store_rows_), k, v);
    attend_contiguous(engine_.ctx, store, 0, rows, testing::view1(store_rows_), kScale, all.columns(0, q_width),
                      testing::view(out, total, q_width));
    testing::expect_same_bits(out, expected,
                              std::string(engine_.ctx.kernels->isa) + " group " +
                                  std::to_string(shape_.heads / shape_.kv_heads) + " step " + std::to_string(seed));
  }

  /// The K and V of a row, as bytes.
  std::vector<std::byte> contents(int64_t row) const {
    std::vector<std::byte> out;
    const auto bytes = static_cast<size_t>(done_[static_cast<size_t>(row)] * shape_.dim) *
                       static_cast<size_t>(dtype_info(shape_.dtype).block_bytes);
    for (int64_t head = 0; head < shape_.kv_heads; ++head) {
      for (const std::byte* at : {store.k(0, kRows - 1 - row, head), store.v(0, kRows - 1 - row, head)})
        out.insert(out.end(), at, at + bytes);
    }
    return out;
  }
  void refill(int64_t row) {
    copy_from_pages(kv_, layer_, View<const int32_t>(table_.data() + row * max_blocks_, {max_blocks_}),
                    done_[static_cast<size_t>(row)], store, 0, kRows - 1 - row);
  }
  void wipe(int64_t row) {
    const auto bytes = static_cast<size_t>(store.k(0, 1, 0) - store.k(0, 0, 0));
    std::memset(store.k(0, kRows - 1 - row, 0), 0xff, bytes);
    std::memset(store.v(0, kRows - 1 - row, 0), 0xff, bytes);
  }

  ContiguousKv store;

 private:
  Engine& engine_;
  Shape shape_;
  int64_t max_blocks_;
  step::KvGeometry kv_;
  std::vector<std::byte> pool_;
  KvLayer layer_;
  AttentionScratch scratch_;
  std::vector<int32_t> table_, store_rows_;
  std::vector<int64_t> done_ = std::vector<int64_t>(kRows, 0);
};

/// Whole prompts but for three tokens; an idle row; decode rows beside chunks; decode rows alone.
void run_all(Both& both) {
  std::vector<int64_t> tokens;
  for (const int64_t length : kLengths) tokens.push_back(std::max<int64_t>(1, length - 3));
  both.step(tokens, 1);
  both.step({0, 1, 1, 1, 1, 1, 1, 1}, 2);
  both.step({16, 1, 1, 1, 1, 1, 1, 1}, 3);
  both.step({1, 2, 9, 1, 1, 1, 1}, 4);
  both.step({1, 1, 1, 1, 1, 1, 1, 1}, 5);
}

TEST(ContiguousAttentionTest, EqualsPagedInBits) {
  const Shape shapes[] = {{2, 2, 16, DType::kF32},
                          {4, 2, 64, DType::kBF16},
                          {6, 2, 18, DType::kBF16},
                          {5, 1, 32, DType::kF32},
                          {20, 1, 24, DType::kBF16}};
  for (const kernels::KernelTable* table : testing::all_tables()) {
    for (const Shape& shape : shapes) {
      if (table->isa == "ref" && shape.heads > 4) continue;  // slow
      for (const int threads : {1, 3}) {
        Engine engine(table, threads);
        Both both(engine, shape, threads == 1 ? 16 : 64);
        run_all(both);
      }
    }
  }
}

TEST(ContiguousAttentionTest, RefillsFromPages) {
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    Engine engine(*kernels::select_kernels(""), 2);
    Both both(engine, {4, 2, 18, dtype}, 32);
    both.step({1, 2, 3, 40, 200, 513}, 7);
    for (const int64_t row : {0, 2, 3, 5}) {
      const std::vector<std::byte> before = both.contents(row);
      both.wipe(row);
      ASSERT_NE(both.contents(row), before);
      both.refill(row);
      EXPECT_EQ(both.contents(row), before) << row;
    }
  }
}

}  // namespace
}  // namespace lockstep::ops
