// SPDX-License-Identifier: Apache-2.0
// Attention over one segment, on sixteen lanes: scores run over the 16 positions of a K tile, P.V over 16 dimensions;
// several query rows share every load of K and V. Equal in bits to ref/attention.cpp. Include after the lanes header.
#pragma once

#include <cstddef>

#include "kernels/simd/tails.h"
#include "kernels/table.h"

namespace lockstep::kernels {
namespace {

struct F32Kv {
  using Word = float;
  static LOCKSTEP_INLINE Lanes load16(const float* p) { return load(p); }
  static LOCKSTEP_INLINE Lanes load_some(const float* p, int64_t n) { return load_first(p, n); }
  static LOCKSTEP_INLINE void store16(float* p, Lanes x) { store(p, x); }
};
struct BF16Kv {
  using Word = uint16_t;
  static LOCKSTEP_INLINE Lanes load16(const uint16_t* p) { return load_bf16(p); }
  static LOCKSTEP_INLINE Lanes load_some(const uint16_t* p, int64_t n) {
    uint16_t words[kLanes] = {};
    for (int64_t i = 0; i < n; ++i) words[i] = p[i];
    return load_bf16(words);
  }
  static LOCKSTEP_INLINE void store16(uint16_t* p, Lanes x) { store_bf16(p, x); }
};

template <class Kv>
LOCKSTEP_INLINE const typename Kv::Word* tile_at(const void* const* tiles, int64_t tile) {
  return static_cast<const typename Kv::Word*>(tiles[tile]);
}

/// Scores of kRows rows from `row` against kTiles tiles from `tile`, of `end` in all. Tiles of one kv head lie apart in
/// a page, so the hardware's prefetcher loses the stream at each: the next K tiles and the values of these are asked
/// for by hand.
template <class Kv, int kRows, int kTiles>
LOCKSTEP_INLINE void score_tiles(const AttendArgs& a, int64_t row, int64_t tile, int64_t end) {
  constexpr int64_t kWordsPerLine = 64 / sizeof(typename Kv::Word);
  const float* q = a.q + row * a.q_stride;
  const typename Kv::Word* k[kTiles];
  const typename Kv::Word* next_k[kTiles];
  const typename Kv::Word* v[kTiles];
  Lanes acc[kRows][kTiles];
#pragma GCC unroll 16
  for (int t = 0; t < kTiles; ++t) {
    k[t] = tile_at<Kv>(a.k_tiles, tile + t);
    next_k[t] = tile_at<Kv>(a.k_tiles, tile + kTiles + t < end ? tile + kTiles + t : tile + t);
    v[t] = tile_at<Kv>(a.v_tiles, tile + t);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc[r][t] = broadcast(0.0f);
  }
  for (int64_t d = 0; d < a.dim; ++d) {
    Lanes keys[kTiles];
#pragma GCC unroll 16
    for (int t = 0; t < kTiles; ++t) {
      keys[t] = Kv::load16(k[t] + d * kTileSlots);
      if (d * kTileSlots % kWordsPerLine == 0) {
        __builtin_prefetch(next_k[t] + d * kTileSlots, 0, 3);
        __builtin_prefetch(v[t] + d * kTileSlots, 0, 2);
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const Lanes query = broadcast(q[r * a.q_stride + d]);
#pragma GCC unroll 16
      for (int t = 0; t < kTiles; ++t) acc[r][t] = fma(query, keys[t], acc[r][t]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int t = 0; t < kTiles; ++t)
      store(a.scratch + (row + r) * kSegmentPositions + (tile + t) * kTileSlots, acc[r][t]);
  }
}

/// Tiles tile..end-1.
template <class Kv, int kRows>
void score_rows(const AttendArgs& a, int64_t row, int64_t tile, int64_t end) {
  constexpr int kTiles = kMaxAccumulators / kRows > 4 ? 4 : kMaxAccumulators / kRows;
  for (; tile + kTiles <= end; tile += kTiles) score_tiles<Kv, kRows, kTiles>(a, row, tile, end);
  for (; tile < end; ++tile) score_tiles<Kv, kRows, 1>(a, row, tile, end);
}

/// Turns a row's scores into exponentials; returns their largest score and their sum.
void soften(float* s, int64_t length, float* out_max, float* out_sum) {
  const Lanes lowest = broadcast(-__builtin_inff());
  Lanes largest = lowest;
  for_lanes(
      length, [&](int64_t i) { largest = larger(load(s + i), largest); },
      [&](int64_t i, int64_t left) { largest = larger(keep_first(load(s + i), left, lowest), largest); });
  const float max = largest_lane(largest) + 0.0f;  // -0 becomes +0
  const Lanes shift = broadcast(max);
  Lanes total = broadcast(0.0f);
  const auto exponential = [&](int64_t i) {
    const Lanes e = exp(sub(load(s + i), shift));
    store(s + i, e);
    return e;
  };
  for_lanes(
      length, [&](int64_t i) { total = add(total, exponential(i)); },
      [&](int64_t i, int64_t left) { total = add(total, keep_first(exponential(i), left, broadcast(0.0f))); });
  *out_max = max;
  *out_sum = sum_tree16(total);
}

/// acc[d..d+16*kChunks) of kRows rows += e[p] v[p] for p in begin..end-1, going on from out_acc unless begin is 0.
template <class Kv, int kRows, int kChunks>
LOCKSTEP_INLINE void weigh_values(const AttendArgs& a, int64_t row, int64_t d, int64_t begin, int64_t end) {
  const float* e = a.scratch + row * kSegmentPositions;
  float* out = a.out_acc + row * a.dim + d;
  Lanes acc[kRows][kChunks];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kChunks; ++c) acc[r][c] = begin == 0 ? broadcast(0.0f) : load(out + r * a.dim + c * kLanes);
  }
  for (int64_t p = begin; p < end;) {
    const int64_t tile_end = (p / kTileSlots + 1) * kTileSlots;
    const int64_t stop = tile_end < end ? tile_end : end;
    const int64_t tile = p / kTileSlots;
    const typename Kv::Word* v = tile_at<Kv>(a.v_tiles, tile) + p % kTileSlots * a.dim + d;
    // The values come from a near cache, so memory is free to bring the same share of the next keys.
    const typename Kv::Word* next = (tile < a.next_tiles ? tile_at<Kv>(a.next_k_tiles, tile) : v) + d * kTileSlots;
    for (; p < stop; ++p, v += a.dim) {
#pragma GCC unroll 16
      for (int c = 0; c < kChunks * kLanes; c += 64 / sizeof(typename Kv::Word)) {
        __builtin_prefetch(next + p % kTileSlots * (kChunks * kLanes) + c, 0, 2);
      }
      Lanes values[kChunks];
#pragma GCC unroll 16
      for (int c = 0; c < kChunks; ++c) values[c] = Kv::load16(v + c * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const Lanes weight = broadcast(e[r * kSegmentPositions + p]);
#pragma GCC unroll 16
        for (int c = 0; c < kChunks; ++c) acc[r][c] = fma(weight, values[c], acc[r][c]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < kChunks; ++c) store(out + r * a.dim + c * kLanes, acc[r][c]);
  }
}

/// The last dimensions, where dim is no multiple of 16: one row at a time.
template <class Kv>
void weigh_values_tail(const AttendArgs& a, int64_t row, int64_t d, int64_t begin, int64_t end) {
  const float* e = a.scratch + row * kSegmentPositions;
  float* out = a.out_acc + row * a.dim + d;
  const int64_t left = a.dim - d;
  Lanes acc = begin == 0 ? broadcast(0.0f) : load_first(out, left);
  for (int64_t p = begin; p < end; ++p) {
    const typename Kv::Word* v = tile_at<Kv>(a.v_tiles, p / kTileSlots) + p % kTileSlots * a.dim + d;
    acc = fma(broadcast(e[p]), Kv::load_some(v, left), acc);
  }
  store_first(out, left, acc);
}

template <class Kv, int kRows>
void weigh_rows(const AttendArgs& a, int64_t row, int64_t begin, int64_t end) {
  if (begin >= end) return;
  constexpr int kChunks = kMaxAccumulators / kRows > 4 ? 4 : kMaxAccumulators / kRows;
  int64_t d = 0;
  for (; d + kChunks * kLanes <= a.dim; d += kChunks * kLanes) weigh_values<Kv, kRows, kChunks>(a, row, d, begin, end);
  for (; d + kLanes <= a.dim; d += kLanes) weigh_values<Kv, kRows, 1>(a, row, d, begin, end);
  if (d == a.dim) return;
  for (int64_t r = 0; r < kRows; ++r) weigh_values_tail<Kv>(a, row + r, d, begin, end);
}

struct LengthRange {
  int64_t shortest, longest;
};
LOCKSTEP_INLINE LengthRange range_of(const int32_t* lengths, int64_t rows) {
  LengthRange range = {lengths[0], lengths[0]};
  for (int64_t r = 1; r < rows; ++r) {
    range.longest = lengths[r] > range.longest ? lengths[r] : range.longest;
    range.shortest = lengths[r] < range.shortest ? lengths[r] : range.shortest;
  }
  return range;
}

/// kRows rows from `row`, whose scores are made: all work that they share, then each row's own last positions.
template <class Kv, int kRows>
void finish_rows(const AttendArgs& a, int64_t row, LengthRange range) {
  for (int64_t r = row; r < row + kRows; ++r)
    soften(a.scratch + r * kSegmentPositions, a.lengths[r], a.out_max + r, a.out_sum + r);
  weigh_rows<Kv, kRows>(a, row, 0, range.shortest);
  if (range.shortest == range.longest) return;
  for (int64_t r = row; r < row + kRows; ++r) weigh_rows<Kv, 1>(a, r, range.shortest, a.lengths[r]);
}

/// Calls work<n>(row) for groups of n rows that together are all rows.
template <class Work>
LOCKSTEP_INLINE void for_row_groups(int64_t rows, Work work) {
  constexpr int kRows = kMaxAccumulators < 8 ? kMaxAccumulators : 8;
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) work.template operator()<kRows>(row);
  switch (rows - row) {
    case 1:
      return work.template operator()<1>(row);
    case 2:
      return work.template operator()<2>(row);
    case 3:
      return work.template operator()<3>(row);
    case 4:
      return work.template operator()<4>(row);
    case 5:
      return work.template operator()<5>(row);
    case 6:
      return work.template operator()<6>(row);
    case 7:
      return work.template operator()<(kRows < 7 ? 1 : 7)>(row);
    default:
      return;
  }
}

template <class Kv>
void attend_segment(const AttendArgs& a) {
  for_row_groups(a.rows, [&]<int kRows>(int64_t row) {
    const LengthRange range = range_of(a.lengths + row, kRows);
    score_rows<Kv, kRows>(a, row, 0, (range.longest + kTileSlots - 1) / kTileSlots);
    finish_rows<Kv, kRows>(a, row, range);
  });
}

void merge_segment(float* m, float* l, float* acc, float m2, float l2, const float* acc2, int64_t dim) {
  const float largest = (*m > m2 ? *m : m2) + 0.0f;
  const Lanes factors = exp(keep_first(broadcast(*m - largest), 1, broadcast(m2 - largest)));
  float factor[kLanes];
  store(factor, factors);
  const float a = factor[0];
  const float b = factor[1];
  const Lanes a16 = broadcast(a);
  const Lanes b16 = broadcast(b);
  for_lanes(
      dim, [&](int64_t i) { store(acc + i, fma(load(acc + i), a16, mul(load(acc2 + i), b16))); },
      [&](int64_t i, int64_t left) {
        store_first(acc + i, left, fma(load_first(acc + i, left), a16, mul(load_first(acc2 + i, left), b16)));
      });
  *m = largest;
  *l = __builtin_fmaf(*l, a, l2 * b);
}

void finish_attention(const float* acc, float l, int64_t dim, float* out) {
  const Lanes sum16 = broadcast(l);
  for_lanes(
      dim, [&](int64_t i) { store(out + i, div(load(acc + i), sum16)); },
      [&](int64_t i, int64_t left) { store_first(out + i, left, div(load_first(acc + i, left), sum16)); });
}

template <class Kv>
void store_kv(const float* k, const float* v, int64_t dim, void* k_tile, void* v_tile, int64_t slot) {
  using Word = typename Kv::Word;
  Word* keys = static_cast<Word*>(k_tile) + slot;
  Word* values = static_cast<Word*>(v_tile) + slot * dim;
  Word words[kLanes];
  const auto scatter_key = [&](int64_t i, int64_t count) {
    for (int64_t j = 0; j < count; ++j) keys[(i + j) * kTileSlots] = words[j];
  };
  for_lanes(
      dim,
      [&](int64_t i) {
        Kv::store16(words, load(k + i));
        scatter_key(i, kLanes);
        Kv::store16(values + i, load(v + i));
      },
      [&](int64_t i, int64_t left) {
        Kv::store16(words, load_first(k + i, left));
        scatter_key(i, left);
        Kv::store16(words, load_first(v + i, left));
        for (int64_t j = 0; j < left; ++j) values[i + j] = words[j];
      });
}

}  // namespace
}  // namespace lockstep::kernels
