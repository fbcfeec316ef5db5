// SPDX-License-Identifier: Apache-2.0
#include "ops/head.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/head_test_support.h"

namespace lockstep::ops {
namespace {

using testing::Engine;
using testing::HeadResult;
using testing::Random;
using testing::RowParams;
using testing::Sampling;
using testing::TestHead;

const kernels::KernelTable* reference() { return *kernels::select_kernels("ref"); }

std::vector<double> naive_logprobs(const std::vector<float>& logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(x - max);
  std::vector<double> out;
  for (const float x : logits) out.push_back(x - max - std::log(sum));
  return out;
}

/// Ids in (logit descending, id ascending).
std::vector<int32_t> sorted_ids(const std::vector<float>& logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return ids;
}

std::vector<std::vector<float>> random_logits(int64_t rows, int64_t vocab, uint32_t seed, float step = 0) {
  std::vector<std::vector<float>> logits;
  for (int64_t r = 0; r < rows; ++r) {
    logits.push_back(Random(seed + static_cast<uint32_t>(r)).normals(vocab, 4.0f));
    for (float& x : logits.back()) x = step > 0 ? std::round(x / step) * step : x;
  }
  return logits;
}

TEST(HeadTest, GreedyTakesTheSmallestOfTheLargest) {
  constexpr int64_t kVocab = 20011;
  std::vector<std::vector<float>> logits = random_logits(4, kVocab, 1);
  // Ties: inside a tile, between tiles, first and last id.
  for (int32_t id : {700, 701, 15000}) logits[0][static_cast<size_t>(id)] = 50;
  for (int32_t id : {511, 512, 20010}) logits[1][static_cast<size_t>(id)] = 50;
  logits[2][kVocab - 1] = 50;
  logits[3][0] = logits[3][8192] = 50;
  for (const kernels::KernelTable* table : testing::all_tables()) {
    TestHead head(table, 2, logits);
    EXPECT_EQ(head.run_rows(std::vector<RowParams>(4)).ids, (std::vector<int32_t>{700, 511, kVocab - 1, 0}))
        << table->isa;
    // More rows than a matmul block.
    const HeadResult many = head.run_rows(std::vector<RowParams>(150));
    EXPECT_EQ(many.ids[149], 511);
    EXPECT_EQ(many.ids[148], 700);
    // The same by the kept logits.
    RowParams kept;
    kept.logprobs_k = 0;
    EXPECT_EQ(head.run_rows(std::vector<RowParams>(4, kept)).ids, (std::vector<int32_t>{700, 511, kVocab - 1, 0}));
  }
}

TEST(HeadTest, LogprobsAreTheLogSoftmaxOfRawLogits) {
  constexpr int64_t kVocab = 17003;
  const std::vector<std::vector<float>> logits = random_logits(3, kVocab, 10, 0.5f);  // many ties
  for (const kernels::KernelTable* table : testing::all_tables()) {
    TestHead head(table, 3, logits);
    std::vector<RowParams> params(3);
    for (RowParams& p : params) p.logprobs_k = 20;
    params[1].logprobs_k = 3;
    params[2].bias = {{5, 100.0f}};  // chooses 5, but the logprobs stay those of raw logits
    params[2].logprobs_k = 0;
    const HeadResult result = head.run_rows(params, 20);
    for (size_t r = 0; r < 3; ++r) {
      const std::vector<double> expected = naive_logprobs(logits[r]);
      const std::vector<int32_t> order = sorted_ids(logits[r]);
      const int32_t id = r == 2 ? 5 : order[0];
      EXPECT_EQ(result.ids[r], id);
      EXPECT_NEAR(result.logprobs[r], expected[static_cast<size_t>(id)], 2e-5);
      for (size_t i = 0; i < 20; ++i) {
        if (static_cast<int32_t>(i) < params[r].logprobs_k) {
          EXPECT_EQ(result.top_ids[r * 20 + i], order[i]) << r << " " << i;
          EXPECT_NEAR(result.top_logprobs[r * 20 + i], expected[static_cast<size_t>(order[i])], 2e-5);
        } else {
          EXPECT_EQ(result.top_ids[r * 20 + i], -1);
          EXPECT_TRUE(std::isnan(result.top_logprobs[r * 20 + i]));
        }
      }
      if (r < 2) {
        EXPECT_EQ(result.logprobs[r], result.top_logprobs[r * 20]);
      }
    }
  }
}

TEST(HeadTest, NoLogprobsUnlessAskedFor) {
  TestHead head(reference(), 1, random_logits(2, 40, 3));
  std::vector<RowParams> params(2);
  params[1].logprobs_k = 1;
  const HeadResult result = head.run_rows(params, 2);
  EXPECT_TRUE(std::isnan(result.logprobs[0]));
  EXPECT_EQ(result.top_ids[0], -1);
  EXPECT_FALSE(std::isnan(result.logprobs[1]));
  EXPECT_EQ(result.top_ids[2], result.ids[1]);
  EXPECT_EQ(result.top_ids[3], -1);
}

TEST(HeadTest, FewerIdsThanAsked) {
  TestHead head(reference(), 1, {{1, 3, 2}});
  std::vector<RowParams> params(1);
  params[0].logprobs_k = 5;
  const HeadResult result = head.run_rows(params, 5);
  EXPECT_EQ(result.top_ids, (std::vector<int32_t>{1, 2, 0, -1, -1}));
}

/// All kinds of rows, on a random hidden and a real head.
struct Mixed {
  std::vector<RowParams> params;
  std::vector<SampledPosition> positions;
  std::vector<float> hidden;
  std::vector<uint32_t> mask;
};

Mixed mixed_rows(int64_t rows, int64_t vocab, int64_t k) {
  Mixed mixed;
  Random random(99);
  mixed.hidden = random.normals(rows * k);
  for (int64_t i = 0; i < (vocab + 31) / 32; ++i) mixed.mask.push_back(random.bits());
  for (int64_t r = 0; r < rows; ++r) {
    RowParams p;
    p.seed = static_cast<uint64_t>(r) * 0x123456789abcdefu;
    if (r % 3 != 0) p.temperature = 0.5f + 0.25f * static_cast<float>(r % 5);
    if (r % 4 == 1) p.top_k = static_cast<int32_t>(5 + r);
    if (r % 5 < 2) p.top_p = 0.9f;
    if (r % 7 == 3) p.min_p = 0.05f;
    if (r % 6 == 2) p.bias = {{3, 2.0f}, {static_cast<int32_t>(vocab - 1), -100.0f}};
    if (r % 8 == 5)
      p.counts = {{1, 0}, {7, 2}, {static_cast<int32_t>(vocab / 2), 1}}, p.repetition = 1.3f, p.frequency = 0.2f;
    if (r % 9 == 4) p.mask = 0;
    if (r % 2 == 0) p.logprobs_k = static_cast<int32_t>(r % 21);
    mixed.params.push_back(p);
    mixed.positions.push_back({static_cast<int32_t>(r), static_cast<int32_t>(100 + r)});
  }
  return mixed;
}

HeadResult run_mixed(Engine& engine, const Matrix& head, const Mixed& mixed, const std::vector<int64_t>& which) {
  const int64_t k = head.k();
  const auto count = static_cast<int64_t>(which.size());
  std::vector<RowParams> params;
  std::vector<float> hidden;
  std::vector<SampledPosition> positions;
  for (const int64_t r : which) {
    positions.push_back({static_cast<int32_t>(params.size()), mixed.positions[static_cast<size_t>(r)].position});
    params.push_back(mixed.params[static_cast<size_t>(r)]);
    hidden.insert(hidden.end(), mixed.hidden.begin() + r * k, mixed.hidden.begin() + (r + 1) * k);
  }
  const Sampling sampling(params, mixed.mask, 1);
  auto quantized = QuantizedRows::create(count, k);
  auto scratch = HeadScratch::create(engine.pool.size(), count, head.n(), k);
  HeadResult result;
  result.ids.resize(which.size());
  result.finite.resize(which.size());
  result.logprobs.resize(which.size());
  result.top_ids.resize(which.size() * 20);
  result.top_logprobs.resize(which.size() * 20);
  HeadOutputs out;
  out.ids = View<int32_t>(result.ids.data(), {count});
  out.finite = View<int32_t>(result.finite.data(), {count});
  out.logprobs = View<float>(result.logprobs.data(), {count});
  out.top_ids = View<int32_t>(result.top_ids.data(), {count, 20});
  out.top_logprobs = View<float>(result.top_logprobs.data(), {count, 20});
  head_and_choose(engine.ctx, head, testing::view(std::as_const(hidden), count, k), *quantized, positions,
                  sampling.view(), *scratch, out);
  return result;
}

void expect_row(const HeadResult& got, size_t i, const HeadResult& expected, size_t j, const std::string& what) {
  EXPECT_EQ(got.ids[i], expected.ids[j]) << what;
  EXPECT_EQ(got.finite[i], expected.finite[j]) << what;
  testing::expect_same_bits(&got.logprobs[i], &expected.logprobs[j], 1, what);
  testing::expect_same_bits(&got.top_logprobs[i * 20], &expected.top_logprobs[j * 20], 20, what);
  EXPECT_TRUE(std::equal(&got.top_ids[i * 20], &got.top_ids[i * 20] + 20, &expected.top_ids[j * 20])) << what;
}

TEST(HeadTest, ARowIsTheSameInAnyBatchOrderThreadsTable) {
  constexpr int64_t kRows = 40, kVocab = 9001, k = 64;
  const Mixed mixed = mixed_rows(kRows, kVocab, k);
  for (DType dtype : {DType::kBF16, DType::kQ8_0}) {
    Engine one(reference(), 1);
    const testing::Source source = testing::random_source(dtype, kVocab, k, 5);
    const Matrix head = testing::pack(one.ctx, source, *native_format(dtype));
    std::vector<HeadResult> alone;
    for (int64_t r = 0; r < kRows; ++r) {
      alone.push_back(run_mixed(one, head, mixed, {r}));
      EXPECT_EQ(alone.back().finite[0], 1);
    }
    std::vector<int64_t> forward(kRows), some = {39, 3, 17, 1, 2};
    std::iota(forward.begin(), forward.end(), 0);
    const std::vector<int64_t> backward(forward.rbegin(), forward.rend());
    for (const kernels::KernelTable* table : testing::all_tables()) {
      for (int threads : {1, 2, 3, 5}) {
        if (table->isa == "ref" && threads != 3) continue;
        Engine engine(table, threads);
        for (const auto& order : {forward, backward, some}) {
          const HeadResult result = run_mixed(engine, head, mixed, order);
          for (size_t i = 0; i < order.size(); ++i) {
            expect_row(
                result, i, alone[static_cast<size_t>(order[i])], 0,
                std::string(table->isa) + " threads " + std::to_string(threads) + " row " + std::to_string(order[i]));
          }
        }
      }
    }
  }
}

TEST(HeadTest, MoreRowsThanKeptLogitsHaveRoomFor) {
  constexpr int64_t kRows = 100, kVocab = 151936, k = 4;  // 128 MB hold 88 rows
  const Mixed mixed = mixed_rows(kRows, kVocab, k);
  Engine engine(*kernels::select_kernels(""), 2);
  const Matrix head =
      testing::pack(engine.ctx, testing::random_source(DType::kF32, kVocab, k, 6), kernels::WeightFormat::kF32);
  std::vector<int64_t> all;
  for (int64_t r = 0; r < kRows; ++r) all.push_back(r % 2 == 0 ? r : r - 1);  // even rows keep logits
  const HeadResult together = run_mixed(engine, head, mixed, all);
  for (size_t i : {size_t{0}, size_t{86}, size_t{87}, size_t{88}, size_t{89}, size_t{99}}) {
    expect_row(together, i, run_mixed(engine, head, mixed, {all[i]}), 0, "row " + std::to_string(i));
  }
}

TEST(HeadTest, NonFiniteRowsAreToldAndStayAlone) {
  constexpr int64_t kVocab = 600, k = 32;
  for (DType dtype : {DType::kF32, DType::kQ8_0}) {
    for (const kernels::KernelTable* table : testing::all_tables()) {
      Engine engine(table, 2);
      const Matrix head = testing::pack(engine.ctx, testing::random_source(dtype, kVocab, k, 7), *native_format(dtype));
      Mixed mixed = mixed_rows(6, kVocab, k);
      const std::vector<int64_t> all = {0, 1, 2, 3, 4, 5};
      const HeadResult clean = run_mixed(engine, head, mixed, all);
      mixed.hidden[0 * k + 31] = testing::kNaN;                           // greedy with logprobs
      mixed.hidden[1 * k + 2] = std::numeric_limits<float>::infinity();   // sampled
      mixed.hidden[3 * k + 5] = -std::numeric_limits<float>::infinity();  // greedy
      const HeadResult result = run_mixed(engine, head, mixed, all);
      EXPECT_EQ(result.finite, (std::vector<int32_t>{0, 0, 1, 0, 1, 1})) << table->isa;
      for (size_t r : {size_t{0}, size_t{1}, size_t{3}}) {
        EXPECT_EQ(result.ids[r], 0);
        EXPECT_TRUE(std::isnan(result.logprobs[r]));
        EXPECT_EQ(result.top_ids[r * 20], -1);
      }
      for (size_t r : {size_t{2}, size_t{4}, size_t{5}}) expect_row(result, r, clean, r, "row " + std::to_string(r));
    }
  }
}

TEST(HeadTest, OneBadLogitAnywhereIsFound) {
  constexpr int64_t kVocab = 1100;
  for (const kernels::KernelTable* table : testing::all_tables()) {
    for (const float bad :
         {testing::kNaN, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
      for (const size_t at : {size_t{0}, size_t{513}, size_t{1099}}) {
        std::vector<std::vector<float>> logits = random_logits(1, kVocab, 8);
        logits[0][at] = bad;
        TestHead head(table, 1, logits);
        for (const float temperature : {0.0f, 1.0f}) {
          RowParams params;
          params.temperature = temperature;
          EXPECT_EQ(head.run_rows({params}).finite[0], 0) << table->isa << " " << bad << " at " << at;
        }
      }
    }
  }
}

TEST(HeadTest, LogitsOnDemandWithPadding) {
  constexpr int64_t kVocab = 530, kPadded = 1024;
  const std::vector<std::vector<float>> logits = random_logits(2, kVocab, 9);
  TestHead head(*kernels::select_kernels(""), 2, logits);
  std::vector<float> hidden = {1, 0, 0, 1}, out(2 * kPadded, testing::kNaN);
  HeadOutputs outputs;
  outputs.logits = View<float>(out.data(), {2, kPadded});
  const Sampling sampling(std::vector<RowParams>(2));
  const std::vector<SampledPosition> positions = {{0, 0}, {1, 0}};
  head_and_choose(head.engine.ctx, head.matrix, testing::view(std::as_const(hidden), 2, 2), head.quantized, positions,
                  sampling.view(), *head.scratch, outputs);
  for (size_t r = 0; r < 2; ++r) {
    testing::expect_same_bits(out.data() + r * kPadded, logits[r].data(), kVocab, "logits");
    for (size_t i = kVocab; i < kPadded; ++i) ASSERT_EQ(out[r * kPadded + i], -std::numeric_limits<float>::infinity());
  }
}

TEST(ScoreTest, LogprobsRanksAndBestIds) {
  constexpr int64_t kVocab = 9000, kRows = 40;  // more rows than the 32 that a pass has
  const std::vector<std::vector<float>> logits = random_logits(kRows, kVocab, 20, 0.25f);
  for (const kernels::KernelTable* table : testing::all_tables()) {
    TestHead head(table, 2, logits, 1);
    std::vector<float> hidden(kRows * kRows);
    std::vector<int32_t> targets;
    for (int64_t r = 0; r < kRows; ++r) {
      hidden[static_cast<size_t>(r * kRows + r)] = 1;
      targets.push_back(r % 7 == 3 ? -1 : static_cast<int32_t>(Random(static_cast<uint32_t>(r)).below(kVocab)));
    }
    std::vector<float> logprobs(kRows), top_logprobs(kRows * 4);
    std::vector<int32_t> ranks(kRows), top_ids(kRows * 4);
    ScoreOutputs out = {View<float>(logprobs.data(), {kRows}), View<int32_t>(ranks.data(), {kRows}),
                        View<int32_t>(top_ids.data(), {kRows, 4}), View<float>(top_logprobs.data(), {kRows, 4})};
    score(head.engine.ctx, head.matrix, testing::view(std::as_const(hidden), kRows, kRows), head.quantized,
          testing::view1(targets), *head.scratch, out);
    for (size_t r = 0; r < kRows; ++r) {
      if (targets[r] < 0) {
        EXPECT_TRUE(std::isnan(logprobs[r]));
        EXPECT_EQ(ranks[r], 0);
        EXPECT_EQ(top_ids[r * 4], -1);
        continue;
      }
      const std::vector<int32_t> order = sorted_ids(logits[r]);
      const std::vector<double> expected = naive_logprobs(logits[r]);
      EXPECT_NEAR(logprobs[r], expected[static_cast<size_t>(targets[r])], 2e-5);
      EXPECT_EQ(ranks[r], std::find(order.begin(), order.end(), targets[r]) - order.begin() + 1) << table->isa;
      for (size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(top_ids[r * 4 + i], order[i]);
        EXPECT_NEAR(top_logprobs[r * 4 + i], expected[static_cast<size_t>(order[i])], 2e-5);
      }
    }
    // Alone, and without the best ids: the same bits; and those of a sampled row's logprobs.
    float one = 0;
    ScoreOutputs only;
    only.logprobs = View<float>(&one, {1});
    const View<const float> last(hidden.data() + 39 * kRows, {1, kRows});
    score(head.engine.ctx, head.matrix, last, head.quantized, View<const int32_t>(targets.data() + 39, {1}),
          *head.scratch, only);
    testing::expect_same_bits(&one, &logprobs[39], 1, "alone");
  }
}

}  // namespace
}  // namespace lockstep::ops
