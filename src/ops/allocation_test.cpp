// SPDX-License-Identifier: Apache-2.0
// No op allocates after its scratch was booked: operator new is counted while all of them run.
#include <atomic>
#include <cstdlib>
#include <new>
#include <numeric>

#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/head_test_support.h"

namespace {
std::atomic<int64_t> allocations{0};
}

// Not inlined: the compiler would see malloc where it expects new, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations.fetch_add(1);
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// The standard library's stable_sort takes this one and gives back through the plain delete.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1);
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace lockstep::ops {
namespace {

using testing::Engine;
using testing::Random;

constexpr int64_t kRows = 40, kHeads = 4, kKvHeads = 2, kDim = 16, kHidden = kHeads * kDim, kVocab = 9000,
                  kLength = 1200;

/// One row decodes a long sequence, the others are one prompt each.
class Step {
 public:
  explicit Step(Engine& engine) : engine_(engine), ctx_(engine.ctx) {
    for (DType dtype : {DType::kBF16, DType::kQ4_1}) {
      weights_.push_back(
          testing::pack(ctx_, testing::random_source(dtype, kHidden, kHidden, 1), *native_format(dtype)));
    }
    head_ = testing::pack(ctx_, testing::random_source(DType::kQ8_0, kVocab, kHidden, 2), *native_format(DType::kQ8_0));
    quantized_ = std::move(*QuantizedRows::create(kRows, kHidden));
    attention_ = std::move(*AttentionScratch::create(engine.pool.size(), kRows, kRows, kLength, kHeads, kDim));
    head_scratch_.emplace(std::move(*HeadScratch::create(engine.pool.size(), kRows, kVocab, kHidden)));
    kv_ = {1, kKvHeads, kDim, 16, kLength / 16, DType::kBF16};
    pool_.resize(static_cast<size_t>(kv_.total_bytes()));
    table_.resize(static_cast<size_t>(kv_.num_blocks));
    std::iota(table_.begin(), table_.end(), 0);
    std::vector<testing::RowParams> params(kRows);
    for (size_t r = 0; r < kRows; ++r) {
      params[r].temperature = r % 2 == 0 ? 0.0f : 1.0f;
      params[r].top_k = r % 4 == 1 ? 10 : 0;
      params[r].top_p = r % 3 == 1 ? 0.8f : 1.0f;
      params[r].logprobs_k = r % 5 == 0 ? 5 : -1;
      params[r].bias = {{3, 1.0f}};
      positions_.push_back({static_cast<int32_t>(r), static_cast<int32_t>(r)});
    }
    sampling_.emplace(params);
    hidden_ = Random(4).normals(kRows * kHidden);
    other_ = wide_ = hidden_;
    wide_.resize(hidden_.size() * 2);
    ids_.assign(kRows, 1);
    weight_.assign(kHidden, 1.0f);
    cos_.resize(kRows * kDim / 2);
    sin_ = cos_;
    top_.resize(kRows * 5);
    top_ids_.resize(kRows * 5);
    logprobs_.resize(kRows);
  }

  void run() {
    const View<float> x = testing::view(hidden_, kRows, kHidden), y = testing::view(other_, kRows, kHidden);
    embed(ctx_, weights_[0], testing::view1(ids_), x);
    rms_norm(ctx_, x, testing::view1(weight_), 1e-6f, y);
    for (const Matrix& w : weights_) {
      const kernels::Activations kind = kernels::activations_of(w.format());
      if (kind != kernels::Activations::kF32) quantize_rows(ctx_, kind, y, quantized_, {});
      matmul(ctx_, w, y, quantized_, x);
    }
    head_norm(ctx_, x, kHeads, View<const float>(weight_.data(), {kDim}), 1e-6f);
    rope_table(ctx_, testing::view1(ids_), View<const float>(weight_.data(), {kDim / 2}), 1.0f,
               testing::view(cos_, kRows, kDim / 2), testing::view(sin_, kRows, kDim / 2));
    rope(ctx_, x, kHeads, testing::view(std::as_const(cos_), kRows, kDim / 2),
         testing::view(std::as_const(sin_), kRows, kDim / 2));
    attend_one_row(x, y);
    silu_mul(ctx_, testing::view(std::as_const(wide_), kRows, 2 * kHidden), x);
    add(ctx_, x, y);
    add_bias(ctx_, x, testing::view1(weight_));
    choose(x);
  }

 private:
  void attend_one_row(View<float> x, View<float> y) {
    const KvLayer layer = {pool_.data(), pool_.data() + kv_.total_bytes() / 2};
    const View<const float> one = x.prefix(1);
    const int32_t query = 1, length = kLength, offsets[] = {0, 1}, slot = kLength - 1;
    const View<const int32_t> slots(&slot, {1});
    store_kv(ctx_, kv_, layer, slots, one.columns(0, kKvHeads * kDim), one.columns(kKvHeads * kDim, kKvHeads * kDim));
    const AttentionRows rows = {View<const int32_t>(&query, {1}), View<const int32_t>(&length, {1}),
                                View<const int32_t>(offsets, {2}),
                                View<const int32_t>(table_.data(), {1, kv_.num_blocks}), slots};
    attend(ctx_, kv_, layer, rows, 0.25f, kHeads, one, attention_, y.prefix(1));
  }
  void choose(View<const float> x) {
    HeadOutputs out;
    out.ids = View<int32_t>(ids_.data(), {kRows});
    out.logprobs = View<float>(logprobs_.data(), {kRows});
    out.top_ids = View<int32_t>(top_ids_.data(), {kRows, 5});
    out.top_logprobs = View<float>(top_.data(), {kRows, 5});
    head_and_choose(ctx_, head_, x, quantized_, positions_, sampling_->view(), *head_scratch_, out);
    ScoreOutputs scores;
    scores.logprobs = View<float>(logprobs_.data(), {kRows});
    score(ctx_, head_, x, quantized_, testing::view1(ids_), *head_scratch_, scores);
    std::fill(ids_.begin(), ids_.end(), 1);
  }

  Engine& engine_;
  const Context& ctx_;
  std::vector<Matrix> weights_;
  Matrix head_;
  QuantizedRows quantized_;
  AttentionScratch attention_;
  std::optional<HeadScratch> head_scratch_;
  step::KvGeometry kv_;
  std::vector<std::byte> pool_;
  std::vector<int32_t> table_, ids_, top_ids_;
  std::vector<SampledPosition> positions_;
  std::optional<testing::Sampling> sampling_;
  std::vector<float> hidden_, other_, wide_, weight_, cos_, sin_, top_, logprobs_;
};

TEST(AllocationTest, OpsAllocateNothing) {
  Engine engine(*kernels::select_kernels(""), 3);
  Step step(engine);
  const int64_t before = allocations.load();
  EXPECT_GT(before, 0);  // the counter works
  step.run();
  step.run();
  EXPECT_EQ(allocations.load(), before);
}

}  // namespace
}  // namespace lockstep::ops
