// SPDX-License-Identifier: Apache-2.0
// Attention over one segment whose K and V lie in rows [position][dim]. A score is a chain over dim, so lanes have to
// be positions: 16 rows of K at a time are turned into a tile [dim][16] in registers, four tiles at a time so that they
// stay in the first-level cache, and all query rows meet them there. V is read in place: 16 of its rows are a V tile
// already. Include after simd/attention.h.
#pragma once

#include <immintrin.h>

#include "kernels/simd/attention.h"

namespace lockstep::kernels {
namespace {

/// Words first..dim-1 of 16 rows into columns of the tile, one by one.
template <class Word>
LOCKSTEP_INLINE void transpose_tail(const Word* rows, int64_t first, int64_t dim, Word* tile) {
  for (int64_t d = first; d < dim; ++d) {
    for (int64_t p = 0; p < kTileSlots; ++p) tile[d * kTileSlots + p] = rows[p * dim + d];
  }
}

/// Eight words of row p in the low half, of row p + 8 in the high half: transposing 8 x 8 in each half gives all 16
/// positions of a dimension in one register.
LOCKSTEP_INLINE void transpose16(const uint16_t* rows, int64_t dim, uint16_t* tile) {
  int64_t d = 0;
  for (; d + 8 <= dim; d += 8) {
    __m256i in[8], pairs[8], quads[8];
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p) {
      const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + p * dim + d));
      const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows + (p + 8) * dim + d));
      in[p] = _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      pairs[2 * i] = _mm256_unpacklo_epi16(in[2 * i], in[2 * i + 1]);      // dimensions 0..3 of two rows
      pairs[2 * i + 1] = _mm256_unpackhi_epi16(in[2 * i], in[2 * i + 1]);  // 4..7
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {  // of four rows: dimensions 0 1, 2 3, 4 5, 6 7
      quads[4 * i] = _mm256_unpacklo_epi32(pairs[4 * i], pairs[4 * i + 2]);
      quads[4 * i + 1] = _mm256_unpackhi_epi32(pairs[4 * i], pairs[4 * i + 2]);
      quads[4 * i + 2] = _mm256_unpacklo_epi32(pairs[4 * i + 1], pairs[4 * i + 3]);
      quads[4 * i + 3] = _mm256_unpackhi_epi32(pairs[4 * i + 1], pairs[4 * i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      auto* out = reinterpret_cast<__m256i*>(tile + (d + 2 * i) * kTileSlots);
      _mm256_storeu_si256(out, _mm256_unpacklo_epi64(quads[i], quads[i + 4]));
      _mm256_storeu_si256(out + 1, _mm256_unpackhi_epi64(quads[i], quads[i + 4]));
    }
  }
  transpose_tail(rows, d, dim, tile);
}

/// Four words of row p in the low half, of row p + 4 in the high half; twice, for 16 positions.
LOCKSTEP_INLINE void transpose16(const float* rows, int64_t dim, float* tile) {
  int64_t d = 0;
  for (; d + 4 <= dim; d += 4) {
#pragma GCC unroll 2
    for (int half = 0; half < 16; half += 8) {
      __m256d in[4];
#pragma GCC unroll 4
      for (int p = 0; p < 4; ++p) {
        const __m128 low = _mm_loadu_ps(rows + (half + p) * dim + d);
        const __m128 high = _mm_loadu_ps(rows + (half + p + 4) * dim + d);
        in[p] = _mm256_castps_pd(_mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1));
      }
      const auto low_pairs = [&](int p) {
        return _mm256_castps_pd(_mm256_unpacklo_ps(_mm256_castpd_ps(in[p]), _mm256_castpd_ps(in[p + 1])));
      };
      const auto high_pairs = [&](int p) {
        return _mm256_castps_pd(_mm256_unpackhi_ps(_mm256_castpd_ps(in[p]), _mm256_castpd_ps(in[p + 1])));
      };
      float* out = tile + d * kTileSlots + half;
      _mm256_storeu_ps(out, _mm256_castpd_ps(_mm256_unpacklo_pd(low_pairs(0), low_pairs(2))));
      _mm256_storeu_ps(out + kTileSlots, _mm256_castpd_ps(_mm256_unpackhi_pd(low_pairs(0), low_pairs(2))));
      _mm256_storeu_ps(out + 2 * kTileSlots, _mm256_castpd_ps(_mm256_unpacklo_pd(high_pairs(0), high_pairs(2))));
      _mm256_storeu_ps(out + 3 * kTileSlots, _mm256_castpd_ps(_mm256_unpackhi_pd(high_pairs(0), high_pairs(2))));
    }
  }
  transpose_tail(rows, d, dim, tile);
}

/// Asks for words that will be transposed after these: transposing meets all 16 rows of a tile at once, which the
/// hardware's prefetcher takes for no stream.
template <class Word>
LOCKSTEP_INLINE void prefetch_words(const Word* words, int64_t count) {
  constexpr int64_t kWordsPerLine = 64 / sizeof(Word);
  for (int64_t i = 0; i < count; i += kWordsPerLine) __builtin_prefetch(words + i, 0, 3);
}

template <class Kv>
void attend_contiguous(const AttendContiguousArgs& args) {
  using Word = typename Kv::Word;
  AttendArgs a = args.segment;
  const int64_t tile_words = kTileSlots * a.dim;
  const int64_t tiles = (range_of(a.lengths, a.rows).longest + kTileSlots - 1) / kTileSlots;
  const auto* const keys = static_cast<const Word*>(args.k);
  const auto* const values = static_cast<const Word*>(args.v);
  auto* const scratch = static_cast<Word*>(args.tiles);
  const void* k_tiles[kSegmentTiles];
  const void* v_tiles[kSegmentTiles];
  for (int64_t t = 0; t < tiles; ++t) {
    k_tiles[t] = scratch + t % kContiguousTiles * tile_words;
    v_tiles[t] = values + t * tile_words;
  }
  a.k_tiles = k_tiles;
  a.v_tiles = v_tiles;
  for (int64_t first = 0; first < tiles; first += kContiguousTiles) {
    const int64_t end = first + kContiguousTiles < tiles ? first + kContiguousTiles : tiles;
    for (int64_t t = first; t < end; ++t) {
      if (t + kContiguousTiles < tiles) prefetch_words(keys + (t + kContiguousTiles) * tile_words, tile_words);
      transpose16(keys + t * tile_words, a.dim, scratch + t % kContiguousTiles * tile_words);
    }
    for_row_groups(a.rows, [&]<int kRows>(int64_t row) { score_rows<Kv, kRows>(a, row, first, end); });
  }
  for_row_groups(a.rows,
                 [&]<int kRows>(int64_t row) { finish_rows<Kv, kRows>(a, row, range_of(a.lengths + row, kRows)); });
}

}  // namespace
}  // namespace lockstep::kernels
