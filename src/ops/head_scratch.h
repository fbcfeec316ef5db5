// SPDX-License-Identifier: Apache-2.0
// Inside of head.h: the rows of a pass over the vocabulary and the storage behind them. A pass is as many rows as the
// kept logits have room for; its work is cut into (row, fixed piece of the vocabulary), and what pieces find is merged
// ascending.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "kernels/table.h"
#include "ops/head.h"
#include "ops/split.h"
#include "tensor/buffer.h"

namespace lockstep::ops {

inline constexpr int64_t kTileColumns = 512;  ///< vocabulary columns of a matmul piece: 0.25 to 2 MB of weights
inline constexpr int64_t kTileRows =
    64;  ///< rows of a matmul piece at a time: its logits stay in the second-level cache
inline constexpr int64_t kPieceIds =
    8192;  ///< ids of a piece of everything after the matmul. Part of the numerics: sums of exponentials
inline constexpr int64_t kKeptBlock =
    64;  ///< kept rows are padded to whole blocks, so that loops may read and write past their end
inline constexpr int64_t kBuckets = 64;  ///< coarse classes of a row's ids by distance from the largest logit
/// A masked id's logit. Processed logits are clamped to +-kLogitLimit, so nothing else gets there and nothing
/// overflows.
inline constexpr float kMaskedOut = std::numeric_limits<float>::lowest();
inline constexpr float kLogitLimit = 3e38f;

/// How a row's id is chosen from its (processed) logits.
enum class Choice : uint8_t {
  kLargest,
  kDraw,        ///< from all ids (above min_p)
  kDrawOfTopK,  ///< top_k, and perhaps top_p, over few candidates that are found by counting
  kDrawOfTopP,  ///< top_p alone, over candidates that are found by weighing
};

struct RowState {
  int32_t slot = -1;         ///< row of the kept logits; -1: none are kept
  int32_t sampling_row = 0;  ///< of the SamplingView
  int32_t position = 0;
  int32_t logprobs_k = -1;  ///< -1 none, 0 the id's own, else best ids too
  int32_t target = -1;      ///< score: the id asked about
  Choice choice = Choice::kLargest;
  bool processed = false;  ///< mask, bias or penalties change the logits
  bool finite = false;
  int32_t id = 0;  ///< largest raw logit at first, the choice at the end
  float raw_max = 0;
  float max = 0;  ///< largest processed logit
  float temperature = 0;
  float min_p = 0;
  float bucket_scale = 0;   ///< bucket = (max - logit) * bucket_scale
  int32_t last_bucket = 0;  ///< candidates are the ids of buckets 0..last_bucket
  int64_t top_k = 0;
  uint64_t top_p_target = 0;  ///< weight to reach; 0: top_p is off or not known yet
};

/// What one piece of one row's vocabulary gives to the row.
struct PieceResult {
  float sum_exp;         ///< of raw logits, relative to raw_max
  int32_t above;         ///< score: ids before the target in (logit descending, id ascending)
  kernels::ArgMax best;  ///< of processed logits
  int64_t candidates;    ///< compacted to the front of the piece
  uint64_t weight;
  uint64_t buckets[kBuckets];  ///< counts or weights
};

struct TopEntry {
  float logit;
  int32_t id;
};

struct HeadScratch::Impl {
  int64_t vocab = 0, hidden = 0;
  int64_t max_rows = 0;   ///< of a pass
  int64_t max_slots = 0;  ///< rows of a pass whose logits are kept
  int64_t stride = 0;     ///< elements of a kept row
  int64_t tiles = 0, pieces = 0;
  int threads = 0;
  Buffer tile_logits;    ///< f32 [threads][kTileRows][kTileColumns]
  Buffer tile_best;      ///< ArgMax [tiles][max_rows]
  Buffer row_states;     ///< RowState [max_rows]
  Buffer slot_rows;      ///< i32 [max_slots]  the row of a slot
  Buffer row_ok;         ///< i32 [max_rows]
  Buffer logits;         ///< f32 [max_slots][stride]
  Buffer weights;        ///< f32 [max_slots][stride]  exp((logit - max) / temperature), 0 for ids that are out
  Buffer candidate_ids;  ///< u16 [max_slots][stride]  relative to the piece
  Buffer results;        ///< PieceResult [max_slots][pieces]
  Buffer tops;           ///< TopEntry [max_slots][pieces][kMaxLogprobs]
  Buffer histograms;     ///< u64 [threads][kHistogram]
  static constexpr int64_t kHistogram = 2048;

  std::array<Buffer*, 11> buffers() {
    return {&tile_logits, &tile_best,     &row_states, &slot_rows, &row_ok,    &logits,
            &weights,     &candidate_ids, &results,    &tops,      &histograms};
  }

  RowState& row(int64_t r) const { return row_states.as<RowState>()[r]; }
  RowState& row_of_slot(int64_t slot) const { return row(slot_rows.as<int32_t>()[slot]); }
  float* logits_row(int64_t slot) const { return logits.as<float>() + slot * stride; }
  float* weights_row(int64_t slot) const { return weights.as<float>() + slot * stride; }
  uint16_t* candidate_ids_row(int64_t slot) const { return candidate_ids.as<uint16_t>() + slot * stride; }
  PieceResult& result(int64_t slot, int64_t piece) const { return results.as<PieceResult>()[slot * pieces + piece]; }
  TopEntry* top(int64_t slot, int64_t piece) const {
    return tops.as<TopEntry>() + (slot * pieces + piece) * step::kMaxLogprobs;
  }
  uint64_t* histogram(int worker) const { return histograms.as<uint64_t>() + worker * kHistogram; }
  int64_t piece_size(int64_t piece) const { return std::min(kPieceIds, vocab - piece * kPieceIds); }
};

/// One pass: rows of `hidden` with their states in scratch.row(0..rows-1), slots 0..slots-1 in use.
struct HeadPass {
  const Context& ctx;
  const Matrix& head;
  View<const float> hidden;  // [rows, hidden]
  QuantizedRows& quantized;
  HeadScratch::Impl& scratch;
  int64_t rows = 0, slots = 0;

  /// body(slot, piece, worker) over all slots and pieces.
  template <class Body>
  void for_each_piece(Body&& body) const {
    ctx.pool->parallel_for(slots * scratch.pieces, [&](int64_t index, int worker) {
      body(index / scratch.pieces, index % scratch.pieces, worker);
    });
  }
};

/// head_logits.cpp: logits of all rows; sets id, raw_max and finite of each row, keeps the logits of rows with a slot,
/// and copies them to `logits_out` [rows, padded_vocab] unless that is empty.
void compute_logits(const HeadPass& pass, View<float> logits_out);
/// The raw logit of one id, computed again: one chain per output, so the same bits as in the whole row.
float compute_logit(const HeadPass& pass, int64_t row, int32_t id);

/// logprobs.cpp: statistics of a piece of raw logits (k best, sum of exponentials; with a target its rank), and their
/// use.
void gather_statistics(const HeadPass& pass, int64_t slot, int64_t piece, int32_t k);
/// log of the sum of exp(logit - raw_max).
float log_sum_exp(const HeadScratch::Impl& scratch, int64_t slot);
int32_t rank_of_target(const HeadScratch::Impl& scratch, int64_t slot);
/// Merges the pieces' best ids: k ids and log-probabilities, (logit descending, id ascending). k <= vocab.
void merge_top(const HeadScratch::Impl& scratch, int64_t slot, int32_t k, int32_t* ids, float* logprobs);

/// sampling_logits.cpp: what a row needs, and mask, bias and penalties on a piece.
void plan_sampling(const step::SamplingView& sampling, int64_t vocab, RowState& row);
void process_piece(const HeadPass& pass, const step::SamplingView& sampling, int64_t slot, int64_t piece);

/// sampling_draw.cpp: draws ids for the rows whose choice is a draw; max must be known.
void draw(const HeadPass& pass, const step::SamplingView& sampling);

}  // namespace lockstep::ops
