// SPDX-License-Identifier: Apache-2.0
// Choice: cases 20-22 of the public cases, thresholds against a sort, draws against exact probabilities.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "ops/head_test_support.h"

namespace lockstep::ops {
namespace {

using testing::HeadResult;
using testing::Random;
using testing::RowParams;
using testing::Sampling;
using testing::TestHead;

const kernels::KernelTable* best() { return *kernels::select_kernels(""); }

/// The choice by the book: sort, cut, walk. Weights are the engine's fixed-point ones.
struct Naive {
  std::vector<uint64_t> weights;  // 0 = out
  uint64_t total() const { return std::accumulate(weights.begin(), weights.end(), uint64_t{0}); }
};

Naive naive_choice(const std::vector<float>& logits, const RowParams& p) {
  const float max = *std::max_element(logits.begin(), logits.end());
  std::vector<float> e(logits.size());
  for (size_t i = 0; i < e.size(); ++i) e[i] = kernels::exp_ref((logits[i] - max) / p.temperature);
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  Naive naive;
  naive.weights.assign(logits.size(), 0);
  size_t kept = 0;
  std::vector<size_t> survivors;
  for (const size_t i : order) {
    if (e[i] < p.min_p && logits[i] != max) continue;
    if (static_cast<uint64_t>(e[i] * 0x1p40f) == 0) continue;
    if (p.top_k > 0 && kept == static_cast<size_t>(p.top_k)) break;
    survivors.push_back(i);
    ++kept;
  }
  double total = 0, sum = 0;
  for (const size_t i : survivors) total += std::floor(double{e[i]} * 0x1p40);
  for (const size_t i : survivors) {
    if (p.top_p < 1 && sum > 0 && sum >= std::floor(double{p.top_p} * total)) break;
    naive.weights[i] = static_cast<uint64_t>(e[i] * 0x1p40f);
    sum += static_cast<double>(naive.weights[i]);
  }
  return naive;
}

int32_t naive_draw(const Naive& naive, const RowParams& p, int32_t position) {
  const auto words = philox4x32({static_cast<uint32_t>(position), 0, static_cast<uint32_t>(p.choice), 0},
                                {static_cast<uint32_t>(p.seed), static_cast<uint32_t>(p.seed >> 32)});
  // floor(random * total / 2^64) by long multiplication.
  const uint64_t random = uint64_t{words[1]} << 32 | words[0], total = naive.total();
  const uint64_t low = (random & 0xffffffffu) * (total & 0xffffffffu);
  const uint64_t middle1 = (random >> 32) * (total & 0xffffffffu), middle2 = (random & 0xffffffffu) * (total >> 32);
  const uint64_t carry = ((low >> 32) + (middle1 & 0xffffffffu) + (middle2 & 0xffffffffu)) >> 32;
  uint64_t left = (random >> 32) * (total >> 32) + (middle1 >> 32) + (middle2 >> 32) + carry;
  for (size_t id = 0; id < naive.weights.size(); ++id) {
    if (left < naive.weights[id]) return static_cast<int32_t>(id);
    left -= naive.weights[id];
  }
  return -1;
}

/// n draws at positions 0..n-1.
std::vector<int32_t> draw_many(TestHead& head, const RowParams& params, int64_t n, int64_t logit_row = 0) {
  std::vector<int32_t> ids;
  const Sampling sampling({params});
  for (int64_t first = 0; first < n; first += 250) {
    std::vector<SampledPosition> positions;
    for (int64_t i = first; i < std::min(n, first + 250); ++i) positions.push_back({0, static_cast<int32_t>(i)});
    const HeadResult result = head.run(std::vector<int64_t>(positions.size(), logit_row), positions, sampling.view());
    ids.insert(ids.end(), result.ids.begin(), result.ids.end());
  }
  return ids;
}

TEST(SamplingTest, Case20TinyTemperaturesChooseWhatGreedyChooses) {
  std::vector<std::vector<float>> logits = {{3, 60, -2, 59, 60, 1}, {-1e30f, 1e30f, 3e38f, 0, 2, 3e38f}};
  for (const kernels::KernelTable* table : testing::all_tables()) {
    TestHead head(table, 1, logits);
    for (const float temperature : {1e-5f, 1e-4f, 1e-30f, 0.0f, -0.0f, 9.9e-6f}) {
      RowParams p;
      p.temperature = temperature;
      p.top_k = temperature > 0 ? 1 : 0;  // rows 0 and 1 tie: the smallest id
      const HeadResult result = head.run_rows({p, p});
      EXPECT_EQ(result.ids, (std::vector<int32_t>{1, 2})) << temperature;
      EXPECT_EQ(result.finite, (std::vector<int32_t>{1, 1})) << temperature;
      p.top_k = 0;
      for (const int32_t id : head.run_rows({p, p}).ids) EXPECT_TRUE(id == 1 || id == 4 || id == 2 || id == 5);
    }
  }
}

TEST(SamplingTest, Case21LimitsAndNeighbours) {
  constexpr int64_t kVocab = 3000;
  const std::vector<float> logits = Random(4).normals(kVocab, 3.0f);
  const auto largest = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  TestHead head(best(), 2, {logits});
  RowParams all;
  all.temperature = 1;
  all.seed = 5;
  RowParams huge = all, equal = all, below = all;
  huge.top_k = 9999999;
  equal.top_k = kVocab;
  below.top_k = -1;
  const std::vector<int32_t> expected = draw_many(head, all, 50);
  EXPECT_EQ(draw_many(head, huge, 50), expected);
  EXPECT_EQ(draw_many(head, equal, 50), expected);
  EXPECT_EQ(draw_many(head, below, 50), expected);
  RowParams tiny = all;
  tiny.top_p = 1e-9f;
  for (const int32_t id : draw_many(head, tiny, 50)) EXPECT_EQ(id, largest);
  RowParams five = all;
  five.top_k = 5;
  const HeadResult both = head.run_rows({RowParams(), five, tiny, all});
  EXPECT_EQ(both.ids[0], largest);
  EXPECT_EQ(both.ids[2], largest);
  EXPECT_EQ(both.ids[1], draw_many(head, five, 1)[0]);
  EXPECT_EQ(both.ids[3], expected[0]);
}

TEST(SamplingTest, Case22Penalties) {
  // [1, 2, -1] with prompt {1}, output {2, 2}, repetition 2, presence 0.5, frequency 0.25 becomes [1, 1, -3].
  RowParams p;
  p.counts = {{1, 0}, {2, 2}};
  p.repetition = 2;
  p.presence = 0.5f;
  p.frequency = 0.25f;
  TestHead head(best(), 1, {{1, 2, -1}, {9, 9, 9}});
  EXPECT_EQ(head.run_rows({p, RowParams()}).ids, (std::vector<int32_t>{0, 0}));  // a tie of 1 and 1
  // Probe each value by the bias that makes the id draw with the largest: ties go to the smaller id, so >= and > are
  // both seen.
  const auto chosen_with = [&](int32_t id, float bias) {
    RowParams probe = p;
    probe.counts = {{1, 0}, {2, 2}};
    probe.bias = {{id, bias}};
    return head.run_rows({probe}).ids[0];
  };
  // logit_bias comes first: 2 + b is halved, so it takes more than 2 * eps to win; id 2 wins above (-1 + b > 0) / 2 - 1
  // > 1: b > 5.
  EXPECT_EQ(chosen_with(1, 0.0f), 0);
  EXPECT_EQ(chosen_with(1, 1e-6f), 1);
  EXPECT_EQ(chosen_with(2, 5.0f), 0);
  EXPECT_EQ(chosen_with(2, 5.00001f), 2);
  EXPECT_EQ(chosen_with(0, -1e-6f), 1);
}

TEST(SamplingTest, PenaltiesThatOverflowStayFinite) {
  RowParams p;
  p.counts = {{0, 3}, {1, 0}};
  p.repetition = 1e-38f;
  p.presence = 2;
  TestHead head(best(), 1, {{1e5f, -1e5f, 0}});
  EXPECT_EQ(head.run_rows({p}).ids[0], 0);
  p.repetition = 3e38f;
  p.temperature = 1;
  const HeadResult result = head.run_rows({p});
  EXPECT_EQ(result.finite[0], 1);
  EXPECT_EQ(result.ids[0], 2);
}

TEST(SamplingTest, MasksForbid) {
  constexpr int64_t kVocab = 20000;
  std::vector<std::vector<float>> logits = {Random(6).normals(kVocab, 3.0f)};
  const int64_t words = (kVocab + 31) / 32;
  std::vector<uint32_t> masks(static_cast<size_t>(2 * words), 0);
  const auto allow = [&](int64_t id) { masks[static_cast<size_t>(id / 32)] |= 1u << (id % 32); };
  for (int64_t id : {17, 8200, 19999}) allow(id);
  TestHead head(best(), 3, logits);
  RowParams greedy, drawn, top, none;
  greedy.mask = drawn.mask = top.mask = 0;
  drawn.temperature = top.temperature = 2;
  top.top_k = 2;
  greedy.bias = {{5, 100.0f}, {17, 50.0f}};  // a bias does not bring a masked id back
  greedy.logprobs_k = 0;
  none.mask = 1;
  const Sampling sampling({greedy, drawn, top, none}, masks, 2);
  std::vector<SampledPosition> positions = {{0, 0}, {3, 0}};
  for (int32_t i = 0; i < 100; ++i) positions.push_back({1 + i % 2, i});
  const HeadResult result = head.run(std::vector<int64_t>(positions.size(), 0), positions, sampling.view());
  EXPECT_EQ(result.ids[0], 17);
  EXPECT_EQ(result.finite[1], 0);
  std::vector<int32_t> by_logit = {17, 8200, 19999};
  std::sort(by_logit.begin(), by_logit.end(), [&](int32_t a, int32_t b) {
    return logits[0][static_cast<size_t>(a)] > logits[0][static_cast<size_t>(b)];
  });
  for (size_t i = 2; i < positions.size(); ++i) {
    EXPECT_EQ(result.finite[i], 1);
    EXPECT_TRUE(result.ids[i] == by_logit[0] || result.ids[i] == by_logit[1] ||
                (i % 2 == 0 && result.ids[i] == by_logit[2]))
        << result.ids[i];
  }
}

TEST(SamplingTest, KeptSetsAndDrawsEqualASort) {
  Random random(17);
  for (const kernels::KernelTable* table : testing::all_tables()) {
    for (const int64_t vocab : {1, 2, 100, 8191, 8193, 20000}) {
      const std::vector<float> smooth = random.normals(vocab, 4.0f);
      std::vector<float> ties = smooth, flat(static_cast<size_t>(vocab), -3.5f), few = smooth;
      for (float& x : ties) x = std::round(x);
      for (float& x : few) x = x > 0 ? 0.0f : -0.0f;
      const std::vector<std::vector<float>> logits = {smooth, ties, flat, few};
      TestHead head(table, 2, logits);
      for (size_t r = 0; r < logits.size(); ++r) {
        for (int trial = 0; trial < 12; ++trial) {
          RowParams p;
          p.temperature = trial % 3 == 0 ? 1.0f : 0.1f + 1.5f * std::fabs(random.uniform());
          p.top_k = trial % 2 == 0 ? static_cast<int32_t>(1 + random.below(trial < 6 ? 20 : 2 * vocab)) : 0;
          p.top_p = trial % 4 < 2 ? 1.0f : 0.001f + 0.998f * std::fabs(random.uniform());
          p.min_p = trial % 6 == 5 ? 0.2f * std::fabs(random.uniform()) : 0.0f;
          p.seed = random.bits();
          const Naive naive = naive_choice(logits[r], p);
          const std::vector<int32_t> ids = draw_many(head, p, 20, static_cast<int64_t>(r));
          for (int32_t i = 0; i < 20; ++i) {
            ASSERT_EQ(ids[static_cast<size_t>(i)], naive_draw(naive, p, i))
                << table->isa << " vocab " << vocab << " logits " << r << " T " << p.temperature << " k " << p.top_k
                << " p " << p.top_p << " min_p " << p.min_p;
          }
        }
      }
    }
  }
}

TEST(SamplingTest, FlatLogitsOfALargeVocabulary) {
  constexpr int64_t kVocab = 151936;
  TestHead head(best(), 2, {std::vector<float>(kVocab, 1.25f)});
  RowParams p;
  p.temperature = 1;
  double mean = 0;
  for (const int32_t id : draw_many(head, p, 200)) mean += id / 200.0;
  EXPECT_NEAR(mean, kVocab / 2.0, 4 * kVocab / std::sqrt(12.0 * 200));
  p.top_k = 5;
  for (const int32_t id : draw_many(head, p, 20)) EXPECT_LT(id, 5);
  p.top_k = 0;
  p.top_p = 0.5f;
  int32_t largest = 0;
  for (const int32_t id : draw_many(head, p, 50)) largest = std::max(largest, id);
  EXPECT_LT(largest, kVocab / 2);
  EXPECT_GT(largest, kVocab / 2 * 8 / 10);
}

void expect_chi_square(const RowParams& p, uint32_t seed) {
  constexpr int64_t kVocab = 40, kDraws = 100000;
  const std::vector<float> logits = Random(seed).normals(kVocab, 2.0f);
  TestHead head(best(), 1, {logits});
  const Naive naive = naive_choice(logits, p);
  std::vector<int64_t> counts(kVocab);
  for (const int32_t id : draw_many(head, p, kDraws)) ++counts[static_cast<size_t>(id)];
  double chi_square = 0;
  int freedom = -1;
  for (size_t id = 0; id < kVocab; ++id) {
    if (naive.weights[id] == 0) {
      EXPECT_EQ(counts[id], 0) << id;
      continue;
    }
    const double expected = kDraws * static_cast<double>(naive.weights[id]) / static_cast<double>(naive.total());
    chi_square +=
        (static_cast<double>(counts[id]) - expected) * (static_cast<double>(counts[id]) - expected) / expected;
    ++freedom;
  }
  // Mean f, variance 2f: five standard deviations, one in a million by chance; the seeds are fixed.
  EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2.0 * freedom));
  EXPECT_GT(chi_square, freedom - 4 * std::sqrt(2.0 * freedom));
}

TEST(SamplingTest, HundredThousandDrawsFollowTheProbabilities) {
  RowParams p;
  p.temperature = 0.8f;
  p.seed = 1234567890123ull;
  expect_chi_square(p, 1);
  p.top_p = 0.9f;
  expect_chi_square(p, 2);
  p.top_k = 12;
  p.choice = 3;
  expect_chi_square(p, 3);
  p.min_p = 0.02f;
  p.seed = 7;
  expect_chi_square(p, 4);
}

TEST(SamplingTest, DrawsDependOnSeedPositionAndChoiceAlone) {
  const std::vector<std::vector<float>> logits = {Random(5).normals(5000), Random(6).normals(5000)};
  RowParams p;
  p.temperature = 1.5f;
  p.seed = 42;
  TestHead head(best(), 2, logits);
  const std::vector<int32_t> expected = draw_many(head, p, 100);
  EXPECT_EQ(draw_many(head, p, 100), expected);
  for (const kernels::KernelTable* table : testing::all_tables()) {
    TestHead other(table, 3, logits, 64);
    EXPECT_EQ(draw_many(other, p, 100), expected) << table->isa;
  }
  for (int change = 0; change < 3; ++change) {
    RowParams changed = p;
    if (change == 0) changed.seed = 43;
    if (change == 1) changed.seed = 42 + (uint64_t{1} << 32);
    if (change == 2) changed.choice = 1;
    const std::vector<int32_t> ids = draw_many(head, changed, 100);
    int equal = 0;
    for (size_t i = 0; i < ids.size(); ++i) equal += ids[i] == expected[i] ? 1 : 0;
    EXPECT_LT(equal, 10) << change;
  }
  // Backwards, beside rows of other logits and parameters.
  RowParams neighbour;
  neighbour.temperature = 0.7f;
  neighbour.top_k = 40;
  const Sampling sampling({neighbour, p});
  std::vector<SampledPosition> positions;
  std::vector<int64_t> rows;
  for (int32_t i = 99; i >= 0; --i) {
    positions.push_back({1, i});
    rows.push_back(0);
    positions.push_back({0, i});
    rows.push_back(1);
  }
  const HeadResult mixed = head.run(rows, positions, sampling.view());
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(mixed.ids[2 * (99 - i)], expected[i]);
}

}  // namespace
}  // namespace lockstep::ops
