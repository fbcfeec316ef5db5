// SPDX-License-Identifier: Apache-2.0
// Paged against contiguous attention, in time: one layer of decode rows at 3338 positions, in interleaved pairs, whose
// order alternates so that a slow moment meets both. Prints the median of the pairs' ratios paged / contiguous and the
// 95% interval of that median by bootstrap. `attention_compare [PAIRS] [THREADS]`, 40 and 2 unless given. Calls walk
// through several layers' storage, as a step does, so that K and V come from where they come from in a step.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>

#include "base/random.h"
#include "base/statistics.h"
#include "kernels/table.h"
#include "ops/contiguous_attention.h"

namespace lockstep::ops {
namespace {

constexpr int64_t kLength = 3338;
constexpr int64_t kBlockSize = 16;
constexpr int64_t kBlocks = (kLength + kBlockSize - 1) / kBlockSize;
constexpr int64_t kLayers = 6;

struct Shape {
  const char* name;
  int64_t heads, kv_heads, dim;
};

float noise(uint32_t i, uint32_t seed) {
  return static_cast<float>(static_cast<int32_t>(philox4x32({i, 0, 0, 0}, {seed, 5})[0])) * 0x1p-31f;
}

/// Decode rows over both stores, which hold the same K and V.
class Subject {
 public:
  Subject(const Context& ctx, const Shape& shape, int64_t rows, bool scattered)
      : ctx_(ctx), shape_(shape), kv_{kLayers, shape.kv_heads, shape.dim, kBlockSize, rows * kBlocks, DType::kBF16} {
    table_.resize(static_cast<size_t>(rows * kBlocks));
    std::iota(table_.begin(), table_.end(), 0);
    if (scattered) std::shuffle(table_.begin(), table_.end(), std::mt19937(7));
    for (int32_t r = 0; r < rows; ++r) {
      query_lens_.push_back(1);
      seq_lens_.push_back(static_cast<int32_t>(kLength) - r % 7);  // not all alike
      slots_.push_back(0);
      store_rows_.push_back(r);
    }
    offsets_.resize(static_cast<size_t>(rows) + 1);
    std::iota(offsets_.begin(), offsets_.end(), 0);
    q_.resize(static_cast<size_t>(rows * shape.heads * shape.dim));
    for (size_t i = 0; i < q_.size(); ++i) q_[i] = noise(static_cast<uint32_t>(i), 3);
    paged_out_.resize(q_.size());
    contiguous_out_.resize(q_.size());
  }

  Status fill() {
    const auto rows = static_cast<int64_t>(query_lens_.size());
    LOCKSTEP_ASSIGN_OR_RETURN(pool_, Buffer::allocate(kv_.total_bytes(), "pages"));
    auto* words = pool_.as<uint16_t>();
    for (int64_t i = 0; i < pool_.bytes() / 2; ++i) words[i] = f32_bits(i);
    LOCKSTEP_ASSIGN_OR_RETURN(
        scratch_, AttentionScratch::create(ctx_.pool->size(), rows, rows, kLength, shape_.heads, shape_.dim));
    LOCKSTEP_ASSIGN_OR_RETURN(store_, ContiguousKv::create({.num_layers = kLayers,
                                                            .num_rows = rows,
                                                            .num_heads = shape_.heads,
                                                            .num_kv_heads = shape_.kv_heads,
                                                            .head_dim = shape_.dim,
                                                            .max_model_len = kLength,
                                                            .dtype = DType::kBF16,
                                                            .threads = ctx_.pool->size()}));
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (int64_t r = 0; r < rows; ++r)
        copy_from_pages(kv_, pages(layer), {table_.data() + r * kBlocks, {kBlocks}}, kLength, store_, layer, r);
    }
    return {};
  }

  double time_paged() {
    return time([&](int64_t layer) {
      attend(ctx_, kv_, pages(layer), rows(), scale(), shape_.heads, view(q_), scratch_, out(paged_out_));
    });
  }
  double time_contiguous() {
    return time([&](int64_t layer) {
      attend_contiguous(ctx_, store_, layer, rows(), {store_rows_.data(), {num_rows()}}, scale(), view(q_),
                        out(contiguous_out_));
    });
  }
  bool same_bits() const {
    return std::memcmp(paged_out_.data(), contiguous_out_.data(), paged_out_.size() * sizeof(float)) == 0;
  }

 private:
  int64_t num_rows() const { return static_cast<int64_t>(query_lens_.size()); }
  float scale() const { return 1.0f / static_cast<float>(shape_.dim); }
  KvLayer pages(int64_t layer) const {
    const int64_t bytes = kv_.total_bytes() / (2 * kLayers);
    return {pool_.data() + 2 * layer * bytes, pool_.data() + (2 * layer + 1) * bytes};
  }
  AttentionRows rows() const {
    return {{query_lens_.data(), {num_rows()}},
            {seq_lens_.data(), {num_rows()}},
            {offsets_.data(), {num_rows() + 1}},
            {table_.data(), {num_rows(), kBlocks}},
            {slots_.data(), {num_rows()}}};
  }
  View<const float> view(const std::vector<float>& data) const {
    return {data.data(), {num_rows(), shape_.heads * shape_.dim}};
  }
  View<float> out(std::vector<float>& data) const { return {data.data(), {num_rows(), shape_.heads * shape_.dim}}; }
  /// Random bf16 of magnitude 0.5..1.
  static uint16_t f32_bits(int64_t i) {
    const uint32_t word = static_cast<uint32_t>(i) * 2654435761u;
    return static_cast<uint16_t>(0x3f00u | (word >> 25) | (word >> 16 & 0x8000u));
  }
  template <class F>
  static double time(F&& layer_call) {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t layer = 0; layer < kLayers; ++layer) layer_call(layer);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const Context& ctx_;
  Shape shape_;
  step::KvGeometry kv_;
  Buffer pool_;
  ContiguousKv store_;
  AttentionScratch scratch_;
  std::vector<int32_t> table_, query_lens_, seq_lens_, offsets_, slots_, store_rows_;
  std::vector<float> q_, paged_out_, contiguous_out_;
};

Status compare(const Context& ctx, const Shape& shape, int64_t rows, bool scattered, int pairs) {
  Subject subject(ctx, shape, rows, scattered);
  LOCKSTEP_RETURN_IF_ERROR(subject.fill());
  subject.time_paged();
  subject.time_contiguous();
  if (!subject.same_bits()) return error(StatusCode::kInternal, "{}: the outputs differ", shape.name);
  std::vector<double> ratios, paged, contiguous;
  for (int pair = 0; pair < pairs; ++pair) {
    const bool paged_first = pair % 2 == 0;
    if (paged_first) paged.push_back(subject.time_paged());
    contiguous.push_back(subject.time_contiguous());
    if (!paged_first) paged.push_back(subject.time_paged());
    ratios.push_back(paged.back() / contiguous.back());
  }
  const Interval interval = median_interval(ratios);
  fmt::print(
      "{:<11} rows {:2}  pages {:<9}  paged {:7.3f} ms  contiguous {:7.3f} ms a layer  ratio {:.3f} [{:.3f}, {:.3f}]\n",
      shape.name, rows, scattered ? "scattered" : "in order", 1e3 * median(paged) / kLayers,
      1e3 * median(contiguous) / kLayers, interval.median, interval.low, interval.high);
  std::fflush(stdout);
  return {};
}

Status compare_all(int pairs, int threads) {
  cpu::ThreadPool pool(threads, /*pin=*/true);
  LOCKSTEP_ASSIGN_OR_RETURN(const kernels::KernelTable* table, kernels::select_kernels(""));
  const Context ctx{table, &pool};
  fmt::print("kernels {}, {} threads, {} pairs, {} positions, bf16\n", table->isa, threads, pairs, kLength);
  for (const Shape& shape : {Shape{"SmolLM2", 9, 3, 64}, Shape{"Qwen3-0.6B", 16, 8, 128}}) {
    for (const int64_t rows : {1, 16}) {
      for (const bool scattered : {false, true}) LOCKSTEP_RETURN_IF_ERROR(compare(ctx, shape, rows, scattered, pairs));
    }
  }
  return {};
}

}  // namespace
}  // namespace lockstep::ops

int main(int argc, char** argv) {
  int numbers[2] = {40, 2};
  for (int i = 1; i < argc; ++i) {
    const std::string_view text = argv[i];
    const auto parsed = i > 2 ? std::errc::invalid_argument
                              : std::from_chars(text.data(), text.data() + text.size(), numbers[i - 1]).ec;
    if (parsed != std::errc() || numbers[i - 1] < 1 || numbers[i - 1] > 1000) {
      std::fputs("usage: attention_compare [PAIRS] [THREADS], each 1 to 1000\n", stderr);
      return 2;
    }
  }
  const lockstep::Status status = lockstep::ops::compare_all(numbers[0], numbers[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
