// SPDX-License-Identifier: Apache-2.0
// The queries of one kv head in a row of the step are flattened: query i is token i / group, head i % group of the
// group. A tile is up to kMaxQueryRows consecutive queries. A task is a tile over all its segments; either one thread
// walks through them with a running merge, or (few tasks, long rows: decode) every segment is a piece of its own and
// who finishes the last one merges. Both merge segments in ascending order, so the bits are the same.
#include "ops/attention.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "ops/split.h"

namespace lockstep::ops {
namespace {

using kernels::kMaxQueryRows;
using kernels::kSegmentPositions;
using kernels::kSegmentTiles;
using kernels::kTileSlots;

/// Pieces a thread should get, so that uneven ones even out.
constexpr int64_t kPiecesPerThread = 4;

struct RowPlan {
  int64_t first_piece;
  int64_t tiles;  ///< per kv head
  int64_t segments;
  int64_t first_partial;  ///< -1: one thread walks through the segments
  int64_t first_counter;
};

/// Floats of one worker, in this order: scores, queries, accumulators of the walk, of a segment.
int64_t worker_floats(int64_t head_dim) {
  return kMaxQueryRows * kSegmentPositions + round_up(3 * kMaxQueryRows * head_dim, 16);
}

std::byte* tile_address(const step::KvGeometry& kv, std::byte* base, int64_t block, int64_t kv_head, int64_t tile) {
  const int64_t index = (block * kv.num_kv_heads + kv_head) * (kv.block_size / kTileSlots) + tile;
  return base + index * kTileSlots * kv.head_dim * dtype_info(kv.dtype).block_bytes;
}

kernels::KvDType kernel_dtype(DType dtype) {
  LOCKSTEP_CHECK(dtype == DType::kBF16 || dtype == DType::kF32);
  return dtype == DType::kBF16 ? kernels::KvDType::kBF16 : kernels::KvDType::kF32;
}

struct Job {
  const Context& ctx;
  const step::KvGeometry& kv;
  const KvLayer& layer;
  const AttentionRows& rows;
  float softmax_scale;
  int64_t group;  ///< query heads of a kv head
  View<const float> q;
  AttentionScratch& scratch;
  View<float> out;

  struct Tile {
    int64_t row, kv_head;
    int64_t first, count;  ///< flattened queries
  };
  struct Partials {
    float *max, *sum, *acc;
  };

  RowPlan* plans() const { return scratch.rows.as<RowPlan>(); }
  int64_t queries(int64_t row) const { return rows.query_lens(row) * group; }
  /// Positions that query i attends to.
  int64_t length(int64_t row, int64_t i) const { return rows.seq_lens(row) - rows.query_lens(row) + i / group + 1; }
  int64_t segments(int64_t row, int64_t i) const { return ceil_div(length(row, i), kSegmentPositions); }
  Partials partials(int64_t index) const {
    float* base = scratch.partials.as<float>();
    return {base + index, base + scratch.max_partials + index, base + 2 * scratch.max_partials + index * kv.head_dim};
  }
  int64_t partial_index(const RowPlan& plan, const Tile& tile, int64_t segment) const {
    return plan.first_partial + (tile.kv_head * plan.segments + segment) * queries(tile.row) + tile.first;
  }

  int64_t plan_rows() const;
  void plan_split(int64_t row, int64_t longest, int64_t& partials_used, int64_t& counters_used) const;
  void run_piece(int64_t piece, int worker) const;
  void walk(const Tile& tile, float* work) const;
  void run_segment(const Tile& tile, int64_t segment, const RowPlan& plan, float* work) const;
  void merge_partials(const Tile& tile, const RowPlan& plan) const;
  void load_queries(const Tile& tile, float* scaled) const;
  int64_t attend_segment(const Tile& tile, int64_t segment, float* work, const Partials& result, bool walks_on) const;
  int64_t find_tiles(const Tile& tile, std::byte* base, int64_t start, int64_t end, const void** tiles) const;
  float* out_of(const Tile& tile, int64_t i) const {
    const int64_t query = tile.first + i;
    return out.row(rows.token_offsets(tile.row) + query / group) + (tile.kv_head * group + query % group) * kv.head_dim;
  }
};

/// Cuts the step into pieces and returns their number.
int64_t Job::plan_rows() const {
  int64_t work = 0;  // in (tile, segment) pairs
  for (int64_t r = 0; r < rows.query_lens.extent(0); ++r) {
    RowPlan& plan = plans()[r];
    const bool idle = rows.slot_mapping(rows.token_offsets(r)) < 0;
    plan.tiles = idle ? 0 : ceil_div(queries(r), kMaxQueryRows);
    plan.segments = ceil_div(rows.seq_lens(r), kSegmentPositions);
    work += kv.num_kv_heads * plan.tiles * plan.segments;
  }
  // With one thread, cutting by segments only costs.
  const int64_t longest = scratch.threads == 1 ? work : work / (kPiecesPerThread * scratch.threads);
  int64_t pieces = 0, partials_used = 0, counters_used = 0;
  for (int64_t r = 0; r < rows.query_lens.extent(0); ++r) {
    RowPlan& plan = plans()[r];
    plan.first_piece = pieces;
    plan_split(r, longest, partials_used, counters_used);
    pieces += kv.num_kv_heads * plan.tiles * (plan.first_partial < 0 ? 1 : plan.segments);
  }
  return pieces;
}

/// Cuts a row by segments if its tasks are longer than `longest` segments and there is room for its partial results.
void Job::plan_split(int64_t row, int64_t longest, int64_t& partials_used, int64_t& counters_used) const {
  RowPlan& plan = plans()[row];
  plan.first_partial = -1;
  const int64_t needed = kv.num_kv_heads * plan.segments * queries(row);
  if (plan.tiles == 0 || plan.segments == 1 || plan.segments <= longest) return;
  if (partials_used + needed > scratch.max_partials) return;
  plan.first_partial = partials_used;
  plan.first_counter = counters_used;
  partials_used += needed;
  for (int64_t task = 0; task < kv.num_kv_heads * plan.tiles; ++task) {
    scratch.counters.as<int32_t>()[counters_used++] = static_cast<int32_t>(plan.segments);
  }
}

void Job::run_piece(int64_t piece, int worker) const {
  const RowPlan* const begin = plans();
  const RowPlan* const end = begin + rows.query_lens.extent(0);
  // The last row that starts at or before the piece; rows without pieces share their start with the next.
  const RowPlan* plan =
      std::upper_bound(begin, end, piece, [](int64_t p, const RowPlan& r) { return p < r.first_piece; }) - 1;
  const int64_t parts = plan->first_partial < 0 ? 1 : plan->segments;
  const int64_t local = piece - plan->first_piece;
  Tile tile = {};
  tile.row = plan - begin;
  tile.kv_head = local / parts / plan->tiles;
  const int64_t index = plan->tiles - 1 - local / parts % plan->tiles;  // the longest first
  tile.first = index * kMaxQueryRows;
  tile.count = std::min(kMaxQueryRows, queries(tile.row) - tile.first);
  float* work = scratch.workers.as<float>() + worker * worker_floats(kv.head_dim);
  load_queries(tile, work + kMaxQueryRows * kSegmentPositions);
  if (plan->first_partial < 0) return walk(tile, work);
  run_segment(tile, local % parts, *plan, work);
  std::atomic_ref<int32_t> left(
      scratch.counters.as<int32_t>()[plan->first_counter + tile.kv_head * plan->tiles + index]);
  if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) merge_partials(tile, *plan);
}

void Job::load_queries(const Tile& tile, float* scaled) const {
  for (int64_t i = 0; i < tile.count; ++i) {
    const int64_t query = tile.first + i;
    const float* from =
        q.row(rows.token_offsets(tile.row) + query / group) + (tile.kv_head * group + query % group) * kv.head_dim;
    for (int64_t d = 0; d < kv.head_dim; ++d) scaled[i * kv.head_dim + d] = from[d] * softmax_scale;
  }
}

/// Addresses of the K or V tiles of positions start..end-1, at most a segment's; returns their number.
int64_t Job::find_tiles(const Tile& tile, std::byte* base, int64_t start, int64_t end, const void** tiles) const {
  const int64_t count = std::clamp<int64_t>(ceil_div(end - start, kTileSlots), 0, kSegmentTiles);
  for (int64_t t = 0; t < count; ++t) {
    const int64_t position = start + t * kTileSlots;
    const int64_t block = rows.block_table(tile.row, position / kv.block_size);
    tiles[t] = tile_address(kv, base, block, tile.kv_head, position % kv.block_size / kTileSlots);
  }
  return count;
}

/// Attends the queries of the tile that reach into the segment: the last ones, as lengths ascend. Their results go to
/// result[first..count-1]; returns first. walks_on: the next segment follows on this thread.
int64_t Job::attend_segment(const Tile& tile, int64_t segment, float* work, const Partials& result,
                            bool walks_on) const {
  const int64_t start = segment * kSegmentPositions;
  int32_t lengths[kMaxQueryRows];
  int64_t first = tile.count;
  for (int64_t i = tile.count - 1; i >= 0 && length(tile.row, tile.first + i) > start; --i) {
    lengths[i] = static_cast<int32_t>(std::min(kSegmentPositions, length(tile.row, tile.first + i) - start));
    first = i;
  }
  if (first == tile.count) return first;
  const void* k_tiles[kSegmentTiles];
  const void* v_tiles[kSegmentTiles];
  const void* next_k_tiles[kSegmentTiles];
  const int64_t longest = length(tile.row, tile.first + tile.count - 1);
  find_tiles(tile, layer.k, start, longest, k_tiles);
  find_tiles(tile, layer.v, start, longest, v_tiles);
  kernels::AttendArgs args = {};
  args.rows = tile.count - first;
  args.dim = kv.head_dim;
  args.q = work + kMaxQueryRows * kSegmentPositions + first * kv.head_dim;
  args.q_stride = kv.head_dim;
  args.lengths = lengths + first;
  args.k_tiles = k_tiles;
  args.v_tiles = v_tiles;
  args.next_k_tiles = next_k_tiles;
  args.next_tiles = walks_on ? find_tiles(tile, layer.k, start + kSegmentPositions, longest, next_k_tiles) : 0;
  args.scratch = work;
  args.out_max = result.max + first;
  args.out_sum = result.sum + first;
  args.out_acc = result.acc + first * kv.head_dim;
  ctx.kernels->attend_segment[static_cast<size_t>(kernel_dtype(kv.dtype))](args);
  return first;
}

void Job::walk(const Tile& tile, float* work) const {
  float max[kMaxQueryRows], sum[kMaxQueryRows], segment_max[kMaxQueryRows], segment_sum[kMaxQueryRows];
  float* acc = work + kMaxQueryRows * (kSegmentPositions + kv.head_dim);
  float* segment_acc = acc + kMaxQueryRows * kv.head_dim;
  attend_segment(tile, 0, work, {max, sum, acc}, /*walks_on=*/true);
  for (int64_t s = 1; s < segments(tile.row, tile.first + tile.count - 1); ++s) {
    for (int64_t i = attend_segment(tile, s, work, {segment_max, segment_sum, segment_acc}, /*walks_on=*/true);
         i < tile.count; ++i) {
      ctx.kernels->merge_segment(&max[i], &sum[i], acc + i * kv.head_dim, segment_max[i], segment_sum[i],
                                 segment_acc + i * kv.head_dim, kv.head_dim);
    }
  }
  for (int64_t i = 0; i < tile.count; ++i) {
    ctx.kernels->finish_attention(acc + i * kv.head_dim, sum[i], kv.head_dim, out_of(tile, i));
  }
}

void Job::run_segment(const Tile& tile, int64_t segment, const RowPlan& plan, float* work) const {
  attend_segment(tile, segment, work, partials(partial_index(plan, tile, segment)), /*walks_on=*/false);
}

void Job::merge_partials(const Tile& tile, const RowPlan& plan) const {
  for (int64_t i = 0; i < tile.count; ++i) {
    const Partials whole = partials(partial_index(plan, tile, 0) + i);
    for (int64_t s = 1; s < segments(tile.row, tile.first + i); ++s) {
      const Partials part = partials(partial_index(plan, tile, s) + i);
      ctx.kernels->merge_segment(whole.max, whole.sum, whole.acc, *part.max, *part.sum, part.acc, kv.head_dim);
    }
    ctx.kernels->finish_attention(whole.acc, *whole.sum, kv.head_dim, out_of(tile, i));
  }
}

}  // namespace

Expected<AttentionScratch> AttentionScratch::create(int threads, int64_t max_num_seqs,
                                                    int64_t /*max_num_batched_tokens*/, int64_t max_model_len,
                                                    int64_t num_heads, int64_t head_dim) {
  AttentionScratch scratch;
  const int64_t split_rows = threads == 1 ? 0 : std::min<int64_t>(max_num_seqs, 2 * threads);
  scratch.max_rows = max_num_seqs;
  scratch.max_partials = split_rows * num_heads * ceil_div(max_model_len, kSegmentPositions);
  scratch.threads = threads;
  scratch.head_dim = head_dim;
  LOCKSTEP_ASSIGN_OR_RETURN(scratch.workers,
                            Buffer::allocate(threads * worker_floats(head_dim) * 4, "attention scratch"));
  LOCKSTEP_ASSIGN_OR_RETURN(scratch.rows,
                            Buffer::allocate(max_num_seqs * static_cast<int64_t>(sizeof(RowPlan)), "attention plan"));
  LOCKSTEP_ASSIGN_OR_RETURN(scratch.partials,
                            Buffer::allocate(scratch.max_partials * (head_dim + 2) * 4, "attention partial results"));
  LOCKSTEP_ASSIGN_OR_RETURN(scratch.counters, Buffer::allocate(scratch.max_partials * 4, "attention counters"));
  return scratch;
}

void store_kv(const Context& ctx, const step::KvGeometry& kv, const KvLayer& layer, View<const int32_t> slot_mapping,
              View<const float> k, View<const float> v) {
  const int64_t tokens = slot_mapping.extent(0);
  LOCKSTEP_CHECK(k.extent(0) == tokens && k.extent(1) == kv.num_kv_heads * kv.head_dim && v.extent(1) == k.extent(1));
  const auto store = ctx.kernels->store_kv[static_cast<size_t>(kernel_dtype(kv.dtype))];
  const auto store_token = [&](int64_t t, int64_t kv_head) {
    const int64_t slot = slot_mapping(t);
    if (slot < 0) return;
    const int64_t in_block = slot % kv.block_size;
    const int64_t tile = in_block / kTileSlots;
    store(k.row(t) + kv_head * kv.head_dim, v.row(t) + kv_head * kv.head_dim, kv.head_dim,
          tile_address(kv, layer.k, slot / kv.block_size, kv_head, tile),
          tile_address(kv, layer.v, slot / kv.block_size, kv_head, tile), in_block % kTileSlots);
  };
  // A K row is a column of its tile and touches every cache line of it, so tokens that may share a tile stay on one
  // thread; a few tokens are not worth waking another.
  constexpr int64_t kFewTokens = 4;
  const int64_t heads_per_piece = tokens <= kFewTokens ? kv.num_kv_heads : 1;
  const int64_t head_pieces = kv.num_kv_heads / heads_per_piece;
  ctx.pool->parallel_for(ceil_div(tokens, kTileSlots) * head_pieces, [&](int64_t piece, int) {
    const int64_t first = piece / head_pieces * kTileSlots;
    const int64_t first_head = piece % head_pieces * heads_per_piece;
    for (int64_t head = first_head; head < first_head + heads_per_piece; ++head) {
      for (int64_t t = first; t < std::min(tokens, first + kTileSlots); ++t) store_token(t, head);
    }
  });
}

void attend(const Context& ctx, const step::KvGeometry& kv, const KvLayer& layer, const AttentionRows& rows,
            float softmax_scale, int64_t num_heads, View<const float> q, AttentionScratch& scratch, View<float> out) {
  LOCKSTEP_CHECK(kv.num_kv_heads > 0 && num_heads % kv.num_kv_heads == 0);
  LOCKSTEP_CHECK(q.extent(1) == num_heads * kv.head_dim && out.extent(1) == q.extent(1));
  LOCKSTEP_CHECK(rows.query_lens.extent(0) <= scratch.max_rows && kv.head_dim <= scratch.head_dim);
  LOCKSTEP_CHECK(ctx.pool->size() <= scratch.threads);
  const Job job = {ctx, kv, layer, rows, softmax_scale, num_heads / kv.num_kv_heads, q, scratch, out};
  const int64_t pieces = job.plan_rows();
  ctx.pool->parallel_for(pieces, [&](int64_t piece, int worker) { job.run_piece(piece, worker); });
}

}  // namespace lockstep::ops
