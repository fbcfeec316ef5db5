// SPDX-License-Identifier: Apache-2.0
// Draws without a sort. An id's weight is exp((logit - max) / temperature) in units of 2^-40, an integer: sums are
// exact in any order. Candidates of top_k and top_p come from one pass of counting or weighing into coarse buckets of
// the distance to the largest logit; the exact threshold is found among them by radix passes over the bits of the
// logit. The draw walks through the ids ascending.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/random.h"
#include "ops/head_scratch.h"

namespace lockstep::ops {
namespace {

__extension__ using uint128 = unsigned __int128;

constexpr float kWeightUnit = 0x1p40f;

uint64_t to_weight(float e) { return static_cast<uint64_t>(static_cast<int64_t>(e * kWeightUnit)); }

/// Buckets of a block of logits. The limit is taken on the words of the floats, which order as they do (none is
/// negative): the compiler makes vectors of that, and of a float minimum it makes branches, at a misprediction every
/// few ids.
struct BlockBuckets {
  BlockBuckets(const RowState& row, const float* logits) {
    const float max = row.max, scale = row.bucket_scale;
    constexpr auto kLast = std::bit_cast<int32_t>(static_cast<float>(kBuckets - 1));
    for (int64_t j = 0; j < kKeptBlock; ++j) {
      const auto distance = std::bit_cast<int32_t>((max - logits[j]) * scale);
      bucket[j] = static_cast<int32_t>(std::bit_cast<float>(distance < kLast ? distance : kLast));
    }
  }
  bool any_up_to(int32_t last) const {
    int32_t any = 0;
    for (int64_t j = 0; j < kKeptBlock; ++j) any |= bucket[j] <= last ? 1 : 0;
    return any != 0;
  }
  int32_t bucket[kKeptBlock];
};

/// Four copies of the buckets: neighbours often share one, and adding to the same word again waits for the last store.
class BucketSums {
 public:
  void add(int64_t i, int32_t bucket, uint64_t amount) { sums_[i % 4][bucket] += amount; }
  void write(uint64_t* buckets) const {
    for (int64_t b = 0; b < kBuckets; ++b) buckets[b] = sums_[0][b] + sums_[1][b] + sums_[2][b] + sums_[3][b];
  }

 private:
  uint64_t sums_[4][kBuckets] = {};
};

/// Unsigned words in the order of the floats; -0 and +0 are one word.
uint32_t ordered_bits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// weights = exp((logit - max) / temperature), 0 below min_p. The maximum goes off first: a tiny temperature cannot
/// overflow.
void fill_weights(const HeadPass& pass, const RowState& row, const float* logits, int64_t n, float* weights) {
  for (int64_t i = 0; i < n; ++i) weights[i] = (logits[i] - row.max) / row.temperature;
  pass.ctx.kernels->exp_array(weights, n, weights);
  if (row.min_p <= 0) return;
  // The largest logit stays whatever min_p is: there is always something to draw.
  for (int64_t i = 0; i < n; ++i) {
    const bool out = static_cast<int>(weights[i] < row.min_p) & static_cast<int>(logits[i] != row.max);
    weights[i] = out ? 0.0f : weights[i];
  }
}

/// First pass: the weight of a piece, or what its ids add to the buckets.
void weigh_piece(const HeadPass& pass, int64_t slot, int64_t piece) {
  const HeadScratch::Impl& scratch = pass.scratch;
  const RowState& row = scratch.row_of_slot(slot);
  const int64_t n = scratch.piece_size(piece);
  const float* logits = scratch.logits_row(slot) + piece * kPieceIds;
  float* weights = scratch.weights_row(slot) + piece * kPieceIds;
  PieceResult& result = scratch.result(slot, piece);
  if (row.choice != Choice::kDrawOfTopK) fill_weights(pass, row, logits, n, weights);
  if (row.choice == Choice::kDraw) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += to_weight(weights[i]);
    result.weight = sum;
    return;
  }
  const bool count = row.choice == Choice::kDrawOfTopK;
  BucketSums sums;
  for (int64_t first = 0; first < n; first += kKeptBlock) {
    const BlockBuckets block(row, logits + first);
    const int64_t size = std::min(kKeptBlock, n - first);
    for (int64_t j = 0; j < size; ++j) {
      const uint64_t amount = count ? uint64_t{logits[first + j] != kMaskedOut} : to_weight(weights[first + j]);
      sums.add(j, block.bucket[j], amount);
    }
  }
  sums.write(result.buckets);
}

/// top_p of a total weight, at least 1: the candidates are the fewest whose weight reaches it.
uint64_t top_p_target(float top_p, uint64_t total) {
  const auto fixed = static_cast<uint64_t>(double{top_p} * 0x1p32);  // exact but for parts below 2^-32
  return std::max<uint64_t>(1, static_cast<uint64_t>(uint128{total} * fixed >> 32));
}

/// From the pieces' buckets: how far the candidates reach.
void choose_buckets(const HeadScratch::Impl& scratch, int64_t slot, float top_p) {
  RowState& row = scratch.row_of_slot(slot);
  uint64_t buckets[kBuckets] = {};
  uint64_t total = 0;
  for (int64_t piece = 0; piece < scratch.pieces; ++piece) {
    for (int64_t b = 0; b < kBuckets; ++b) buckets[b] += scratch.result(slot, piece).buckets[b];
  }
  for (const uint64_t amount : buckets) total += amount;
  row.top_p_target = row.choice == Choice::kDrawOfTopP ? top_p_target(top_p, total) : 0;
  const uint64_t needed = row.choice == Choice::kDrawOfTopP ? row.top_p_target : static_cast<uint64_t>(row.top_k);
  uint64_t reached = 0;
  row.last_bucket = 0;
  for (int32_t b = 0; b < kBuckets; ++b) {
    reached += buckets[b];
    row.last_bucket = b;
    if (reached >= needed) break;
  }
}

/// Second pass: moves the candidates of a piece to its front, ids ascending.
void compact_piece(const HeadPass& pass, int64_t slot, int64_t piece) {
  const HeadScratch::Impl& scratch = pass.scratch;
  const RowState& row = scratch.row_of_slot(slot);
  const int64_t n = scratch.piece_size(piece);
  float* logits = scratch.logits_row(slot) + piece * kPieceIds;
  float* weights = scratch.weights_row(slot) + piece * kPieceIds;
  uint16_t* ids = scratch.candidate_ids_row(slot) + piece * kPieceIds;
  const bool weighed = row.choice == Choice::kDrawOfTopP;
  int64_t count = 0;
  for (int64_t first = 0; first < n; first += kKeptBlock) {
    const BlockBuckets block(row, logits + first);
    if (!block.any_up_to(row.last_bucket)) continue;
    const int64_t size = std::min(kKeptBlock, n - first);
    for (int64_t j = 0; j < size; ++j) {  // without a branch: count never passes first + j
      const float logit = logits[first + j];
      logits[count] = logit;
      weights[count] = weights[first + j];
      ids[count] = static_cast<uint16_t>(first + j);
      count += static_cast<int64_t>(block.bucket[j] <= row.last_bucket) & static_cast<int64_t>(logit != kMaskedOut);
    }
  }
  if (!weighed) fill_weights(pass, row, logits, count, weights);
  scratch.result(slot, piece).candidates = count;
}

/// Calls body(logit, weight, id) for all candidates of a row, ids ascending; stops when it returns false.
template <class Body>
void for_each_candidate(const HeadScratch::Impl& scratch, int64_t slot, Body&& body) {
  for (int64_t piece = 0; piece < scratch.pieces; ++piece) {
    const int64_t first = piece * kPieceIds;
    float* weights = scratch.weights_row(slot) + first;
    for (int64_t i = 0; i < scratch.result(slot, piece).candidates; ++i) {
      const int64_t id = first + scratch.candidate_ids_row(slot)[first + i];
      if (!body(scratch.logits_row(slot)[first + i], weights[i], static_cast<int32_t>(id))) return;
    }
  }
}

/// Keeps the first candidates in (logit descending, id ascending) whose measure reaches `target`, at least one; the
/// others' weight becomes 0. measure(weight) of an id that is out must be 0.
template <class Measure>
void keep_first(const HeadScratch::Impl& scratch, int64_t slot, uint64_t target, uint64_t* histogram, Measure measure) {
  constexpr int kShifts[] = {21, 10, 0};
  constexpr uint32_t kDigits[] = {2048, 2048, 1024};
  uint32_t prefix = 0, prefix_mask = 0;  // of the last kept logit
  for (int level = 0; level < 3; ++level) {
    const int shift = kShifts[level];
    const uint32_t digit_mask = kDigits[level] - 1;
    std::fill_n(histogram, kDigits[level], uint64_t{0});
    for_each_candidate(scratch, slot, [&](float logit, float weight, int32_t) {
      const uint32_t bits = ordered_bits(logit);
      if ((bits & prefix_mask) == prefix) histogram[bits >> shift & digit_mask] += measure(weight);
      return true;
    });
    uint32_t digit = kDigits[level] - 1;
    uint32_t smallest = 0;  // a digit that has anything: the end of the row if the target is not reached
    while (smallest < digit && histogram[smallest] == 0) ++smallest;
    for (; digit > smallest && histogram[digit] < target; --digit) target -= histogram[digit];
    prefix |= digit << shift;
    prefix_mask |= digit_mask << shift;
  }
  for_each_candidate(scratch, slot, [&](float logit, float& weight, int32_t) {
    const uint32_t bits = ordered_bits(logit);
    if (bits < prefix || (bits == prefix && target == 0)) {
      weight = 0;
    } else if (bits == prefix) {
      target -= std::min(target, measure(weight));
    }
    return true;
  });
}

uint64_t candidate_weight(const HeadScratch::Impl& scratch, int64_t slot) {
  uint64_t total = 0;
  for_each_candidate(scratch, slot, [&](float, float weight, int32_t) {
    total += to_weight(weight);
    return true;
  });
  return total;
}

/// A uniform number in 0..total-1 that depends on seed, choice index and position only. Key: the seed; counter:
/// position, number of the draw (one a position), choice index.
uint64_t random_below(const step::SamplingView& sampling, const RowState& row, uint64_t total) {
  const uint64_t seed = sampling.seed.empty() ? 0 : sampling.seed(row.sampling_row);
  const auto choice = static_cast<uint32_t>(sampling.choice.empty() ? 0 : sampling.choice(row.sampling_row));
  constexpr uint32_t kDraw = 0;
  const auto words = philox4x32({static_cast<uint32_t>(row.position), kDraw, choice, 0},
                                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t random = uint64_t{words[1]} << 32 | words[0];
  return static_cast<uint64_t>(uint128{random} * total >> 64);
}

int32_t draw_candidate(const HeadScratch::Impl& scratch, const step::SamplingView& sampling, int64_t slot) {
  const RowState& row = scratch.row_of_slot(slot);
  uint64_t left = random_below(sampling, row, candidate_weight(scratch, slot));
  int32_t chosen = row.id;
  for_each_candidate(scratch, slot, [&](float, float candidate, int32_t id) {
    const uint64_t weight = to_weight(candidate);
    chosen = id;
    if (left < weight) return false;
    left -= weight;
    return true;
  });
  return chosen;
}

int32_t draw_from_all(const HeadScratch::Impl& scratch, const step::SamplingView& sampling, int64_t slot) {
  const RowState& row = scratch.row_of_slot(slot);
  uint64_t total = 0;
  for (int64_t piece = 0; piece < scratch.pieces; ++piece) total += scratch.result(slot, piece).weight;
  uint64_t left = random_below(sampling, row, total);
  int64_t piece = 0;
  for (; left >= scratch.result(slot, piece).weight; ++piece) left -= scratch.result(slot, piece).weight;
  const float* weights = scratch.weights_row(slot);
  int64_t id = piece * kPieceIds;
  for (; left >= to_weight(weights[id]); ++id) left -= to_weight(weights[id]);
  return static_cast<int32_t>(id);
}

void draw_row(const HeadPass& pass, const step::SamplingView& sampling, int64_t slot, int worker) {
  const HeadScratch::Impl& scratch = pass.scratch;
  RowState& row = scratch.row_of_slot(slot);
  if (row.choice == Choice::kDraw) {
    row.id = draw_from_all(scratch, sampling, slot);
    return;
  }
  const float top_p = sampling.top_p.empty() ? 1.0f : sampling.top_p(row.sampling_row);
  if (row.choice == Choice::kDrawOfTopK) {
    keep_first(scratch, slot, static_cast<uint64_t>(row.top_k), scratch.histogram(worker),
               [](float weight) { return to_weight(weight) > 0 ? uint64_t{1} : uint64_t{0}; });
    if (top_p < 1.0f) row.top_p_target = top_p_target(top_p, candidate_weight(scratch, slot));
  }
  if (row.top_p_target > 0) keep_first(scratch, slot, row.top_p_target, scratch.histogram(worker), to_weight);
  row.id = draw_candidate(scratch, sampling, slot);
}

bool draws(const RowState& row) { return row.finite && row.choice != Choice::kLargest; }

}  // namespace

void draw(const HeadPass& pass, const step::SamplingView& sampling) {
  const HeadScratch::Impl& scratch = pass.scratch;
  bool any = false, any_threshold = false;
  for (int64_t slot = 0; slot < pass.slots; ++slot) {
    const RowState& row = scratch.row_of_slot(slot);
    any = any || draws(row);
    any_threshold = any_threshold || (draws(row) && row.choice != Choice::kDraw);
  }
  if (!any) return;
  pass.for_each_piece([&](int64_t slot, int64_t piece, int) {
    if (draws(scratch.row_of_slot(slot))) weigh_piece(pass, slot, piece);
  });
  if (any_threshold) {
    for (int64_t slot = 0; slot < pass.slots; ++slot) {
      const RowState& row = scratch.row_of_slot(slot);
      if (!draws(row) || row.choice == Choice::kDraw) continue;
      choose_buckets(scratch, slot, sampling.top_p.empty() ? 1.0f : sampling.top_p(row.sampling_row));
    }
    pass.for_each_piece([&](int64_t slot, int64_t piece, int) {
      const RowState& row = scratch.row_of_slot(slot);
      if (draws(row) && row.choice != Choice::kDraw) compact_piece(pass, slot, piece);
    });
  }
  pass.ctx.pool->parallel_for(pass.slots, [&](int64_t slot, int worker) {
    if (draws(scratch.row_of_slot(slot))) draw_row(pass, sampling, slot, worker);
  });
}

}  // namespace lockstep::ops
