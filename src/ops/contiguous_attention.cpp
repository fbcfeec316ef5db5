// SPDX-License-Identifier: Apache-2.0
// A row of one token (decode) is cut into pieces of one kv head and one segment, whose results are merged afterwards; a
// row of more tokens into pieces of one kv head and up to 16 queries, each of which walks through its segments. Query i
// of a kv head is token i / group, head i % group of the group.
#include "ops/contiguous_attention.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "ops/split.h"

namespace lockstep::ops {
namespace {

using kernels::kMaxQueryRows;
using kernels::kSegmentPositions;
using kernels::kTileSlots;

kernels::KvDType kernel_dtype(DType dtype) {
  LOCKSTEP_CHECK(dtype == DType::kBF16 || dtype == DType::kF32);
  return dtype == DType::kBF16 ? kernels::KvDType::kBF16 : kernels::KvDType::kF32;
}

/// Scratch of one worker.
struct Work {
  Work(float* base, int64_t dim)
      : scores(base),
        queries(scores + kMaxQueryRows * kSegmentPositions),
        acc(queries + kMaxQueryRows * dim),
        segment_acc(acc + kMaxQueryRows * dim),
        tiles(segment_acc + kMaxQueryRows * dim) {}
  float *scores, *queries, *acc, *segment_acc, *tiles;
};

struct Job {
  const Context& ctx;
  ContiguousKv& store;
  int64_t layer;
  const AttentionRows& rows;
  View<const int32_t> store_rows;
  float softmax_scale;
  View<const float> q;
  View<float> out;

  /// Up to kMaxQueryRows consecutive queries of one kv head in one row of the step.
  struct Tile {
    int64_t row, kv_head, first, count;
  };

  int64_t dim() const { return store.shape().head_dim; }
  int64_t group() const { return store.shape().num_heads / store.shape().num_kv_heads; }
  bool idle(int64_t row) const { return rows.slot_mapping(rows.token_offsets(row)) < 0; }
  bool is_cut(int64_t row) const { return rows.query_lens(row) == 1; }
  int64_t segments(int64_t row) const { return ceil_div(rows.seq_lens(row), kSegmentPositions); }
  int64_t tiles(int64_t row) const { return ceil_div(rows.query_lens(row) * group(), kMaxQueryRows); }
  /// Positions that a query attends to.
  int64_t length(int64_t row, int64_t query) const {
    return rows.seq_lens(row) - rows.query_lens(row) + query / group() + 1;
  }
  /// Elements before query `query` of a kv head in a row of q or out, and that row.
  int64_t column(const Tile& tile, int64_t query) const { return (tile.kv_head * group() + query % group()) * dim(); }
  int64_t token(const Tile& tile, int64_t query) const { return rows.token_offsets(tile.row) + query / group(); }

  int64_t plan() const;
  void run_piece(int64_t piece, int worker) const;
  void load_queries(const Tile& tile, float* queries) const;
  int64_t attend(const Tile& tile, int64_t segment, const Work& work, const ContiguousKv::Partial& result) const;
  void walk(const Tile& tile, const Work& work) const;
  void merge_row(int64_t row) const;
};

/// Numbers the pieces of all rows; returns how many there are.
int64_t Job::plan() const {
  int64_t pieces = 0;
  for (int64_t row = 0; row < rows.query_lens.extent(0); ++row) {
    store.first_pieces()[row] = pieces;
    if (!idle(row)) pieces += store.shape().num_kv_heads * tiles(row) * (is_cut(row) ? segments(row) : 1);
  }
  return pieces;
}

void Job::run_piece(int64_t piece, int worker) const {
  const int64_t* begin = store.first_pieces();
  // The last row that starts at or before the piece: rows without pieces share their start with the next.
  const int64_t row = std::upper_bound(begin, begin + rows.query_lens.extent(0), piece) - begin - 1;
  const int64_t parts = is_cut(row) ? segments(row) : 1;
  const int64_t local = piece - begin[row];
  Tile tile = {};
  tile.row = row;
  tile.kv_head = local / parts / tiles(row);
  tile.first = local / parts % tiles(row) * kMaxQueryRows;
  tile.count = std::min(kMaxQueryRows, rows.query_lens(row) * group() - tile.first);
  const Work work(store.worker(worker), dim());
  load_queries(tile, work.queries);
  if (!is_cut(row)) return walk(tile, work);
  const int64_t segment = local % parts;
  attend(tile, segment, work, store.partial(row, segment, tile.kv_head * group() + tile.first));
}

void Job::load_queries(const Tile& tile, float* queries) const {
  for (int64_t i = 0; i < tile.count; ++i) {
    const float* from = q.row(token(tile, tile.first + i)) + column(tile, tile.first + i);
    for (int64_t d = 0; d < dim(); ++d) queries[i * dim() + d] = from[d] * softmax_scale;
  }
}

/// Attends the queries of the tile that reach into the segment: the last ones, as lengths ascend. Their results go to
/// result[first..count-1]; returns first.
int64_t Job::attend(const Tile& tile, int64_t segment, const Work& work, const ContiguousKv::Partial& result) const {
  const int64_t start = segment * kSegmentPositions;
  int32_t lengths[kMaxQueryRows];
  int64_t first = tile.count;
  for (; first > 0 && length(tile.row, tile.first + first - 1) > start; --first) {
    const int64_t reach = length(tile.row, tile.first + first - 1) - start;
    lengths[first - 1] = static_cast<int32_t>(std::min(kSegmentPositions, reach));
  }
  if (first == tile.count) return first;
  const int64_t row_bytes = dim() * dtype_info(store.shape().dtype).block_bytes;
  kernels::AttendContiguousArgs args = {};
  args.segment.rows = tile.count - first;
  args.segment.dim = dim();
  args.segment.q = work.queries + first * dim();
  args.segment.q_stride = dim();
  args.segment.lengths = lengths + first;
  args.segment.scratch = work.scores;
  args.segment.out_max = result.max + first;
  args.segment.out_sum = result.sum + first;
  args.segment.out_acc = result.acc + first * dim();
  args.k = store.k(layer, store_rows(tile.row), tile.kv_head) + start * row_bytes;
  args.v = store.v(layer, store_rows(tile.row), tile.kv_head) + start * row_bytes;
  args.tiles = work.tiles;
  ctx.kernels->attend_contiguous[static_cast<size_t>(kernel_dtype(store.shape().dtype))](args);
  return first;
}

void Job::walk(const Tile& tile, const Work& work) const {
  float max[kMaxQueryRows], sum[kMaxQueryRows], segment_max[kMaxQueryRows], segment_sum[kMaxQueryRows];
  attend(tile, 0, work, {max, sum, work.acc});
  for (int64_t s = 1; s < segments(tile.row); ++s) {
    for (int64_t i = attend(tile, s, work, {segment_max, segment_sum, work.segment_acc}); i < tile.count; ++i) {
      ctx.kernels->merge_segment(&max[i], &sum[i], work.acc + i * dim(), segment_max[i], segment_sum[i],
                                 work.segment_acc + i * dim(), dim());
    }
  }
  for (int64_t i = 0; i < tile.count; ++i) {
    float* to = out.row(token(tile, tile.first + i)) + column(tile, tile.first + i);
    ctx.kernels->finish_attention(work.acc + i * dim(), sum[i], dim(), to);
  }
}

/// The segments of a one-token row, ascending.
void Job::merge_row(int64_t row) const {
  if (idle(row) || !is_cut(row)) return;
  for (int64_t head = 0; head < store.shape().num_heads; ++head) {
    const ContiguousKv::Partial whole = store.partial(row, 0, head);
    for (int64_t s = 1; s < segments(row); ++s) {
      const ContiguousKv::Partial part = store.partial(row, s, head);
      ctx.kernels->merge_segment(whole.max, whole.sum, whole.acc, *part.max, *part.sum, part.acc, dim());
    }
    ctx.kernels->finish_attention(whole.acc, *whole.sum, dim(), out.row(rows.token_offsets(row)) + head * dim());
  }
}

void store_row(const ContiguousShape& shape, const float* from, std::byte* to) {
  if (shape.dtype == DType::kF32) {
    std::memcpy(to, from, static_cast<size_t>(shape.head_dim) * sizeof(float));
    return;
  }
  auto* words = reinterpret_cast<uint16_t*>(to);
  for (int64_t d = 0; d < shape.head_dim; ++d) words[d] = f32_to_bf16(from[d]);
}

}  // namespace

Expected<ContiguousKv> ContiguousKv::create(const ContiguousShape& shape) {
  LOCKSTEP_CHECK(shape.num_kv_heads > 0 && shape.num_heads % shape.num_kv_heads == 0);
  ContiguousKv out;
  out.shape_ = shape;
  const int64_t bytes = out.offset(shape.num_layers, 0, 0);
  const int64_t partials = shape.num_rows * out.max_segments() * shape.num_heads;
  LOCKSTEP_ASSIGN_OR_RETURN(out.keys_, Buffer::allocate(bytes, "contiguous K"));
  LOCKSTEP_ASSIGN_OR_RETURN(out.values_, Buffer::allocate(bytes, "contiguous V"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      out.workers_, Buffer::allocate(shape.threads * out.worker_floats() * 4, "contiguous attention's scratch"));
  LOCKSTEP_ASSIGN_OR_RETURN(
      out.partials_, Buffer::allocate(partials * (shape.head_dim + 2) * 4, "contiguous attention's partial results"));
  LOCKSTEP_ASSIGN_OR_RETURN(out.pieces_, Buffer::allocate((shape.num_rows + 1) * 8, "contiguous attention's plan"));
  return out;
}

ContiguousKv::Partial ContiguousKv::partial(int64_t row, int64_t segment, int64_t head) const {
  const int64_t count = shape_.num_rows * max_segments() * shape_.num_heads;
  const int64_t index = (row * max_segments() + segment) * shape_.num_heads + head;
  auto* base = partials_.as<float>();
  return {base + index, base + count + index, base + 2 * count + index * shape_.head_dim};
}

int64_t ContiguousKv::offset(int64_t layer, int64_t row, int64_t kv_head) const {
  const int64_t index = (layer * shape_.num_rows + row) * shape_.num_kv_heads + kv_head;
  return index * round_up(shape_.max_model_len, kTileSlots) * shape_.head_dim * dtype_info(shape_.dtype).block_bytes;
}

int64_t ContiguousKv::worker_floats() const {
  const int64_t tiles = kernels::kContiguousTiles * kTileSlots * shape_.head_dim;
  return kMaxQueryRows * kSegmentPositions + round_up(3 * kMaxQueryRows * shape_.head_dim + tiles, 16);
}

int64_t ContiguousKv::max_segments() const { return ceil_div(shape_.max_model_len, kSegmentPositions); }

void store_contiguous(const Context& ctx, ContiguousKv& store, int64_t layer, const AttentionRows& rows,
                      View<const int32_t> store_rows, View<const float> k, View<const float> v) {
  const ContiguousShape& shape = store.shape();
  const int64_t row_bytes = shape.head_dim * dtype_info(shape.dtype).block_bytes;
  ctx.pool->parallel_for(rows.query_lens.extent(0) * shape.num_kv_heads, [&](int64_t piece, int) {
    const int64_t row = piece / shape.num_kv_heads;
    const int64_t head = piece % shape.num_kv_heads;
    const int64_t first = rows.token_offsets(row);
    if (rows.slot_mapping(first) < 0) return;
    int64_t at = (rows.seq_lens(row) - rows.query_lens(row)) * row_bytes;
    for (int64_t t = first; t < rows.token_offsets(row + 1); ++t, at += row_bytes) {
      store_row(shape, k.row(t) + head * shape.head_dim, store.k(layer, store_rows(row), head) + at);
      store_row(shape, v.row(t) + head * shape.head_dim, store.v(layer, store_rows(row), head) + at);
    }
  });
}

void attend_contiguous(const Context& ctx, ContiguousKv& store, int64_t layer, const AttentionRows& rows,
                       View<const int32_t> store_rows, float softmax_scale, View<const float> q, View<float> out) {
  const ContiguousShape& shape = store.shape();
  LOCKSTEP_CHECK(q.extent(1) == shape.num_heads * shape.head_dim && out.extent(1) == q.extent(1));
  LOCKSTEP_CHECK(rows.query_lens.extent(0) <= shape.num_rows && ctx.pool->size() <= shape.threads);
  const Job job = {ctx, store, layer, rows, store_rows, softmax_scale, q, out};
  const int64_t pieces = job.plan();
  ctx.pool->parallel_for(pieces, [&](int64_t piece, int worker) { job.run_piece(piece, worker); });
  ctx.pool->parallel_for(rows.query_lens.extent(0), [&](int64_t row, int) { job.merge_row(row); });
}

void copy_from_pages(const step::KvGeometry& kv, const KvLayer& pages, View<const int32_t> block_table,
                     int64_t positions, ContiguousKv& store, int64_t layer, int64_t store_row) {
  const int64_t word = dtype_info(kv.dtype).block_bytes;
  const auto word_bytes = static_cast<size_t>(word);
  for (int64_t p = 0; p < positions; ++p) {
    const int64_t slot = p % kTileSlots;
    for (int64_t head = 0; head < kv.num_kv_heads; ++head) {
      const int64_t block = block_table(p / kv.block_size);
      const int64_t tile =
          (block * kv.num_kv_heads + head) * (kv.block_size / kTileSlots) + p % kv.block_size / kTileSlots;
      const std::byte* k = pages.k + tile * kTileSlots * kv.head_dim * word;
      const std::byte* v = pages.v + (tile * kTileSlots + slot) * kv.head_dim * word;
      std::byte* to = store.k(layer, store_row, head) + p * kv.head_dim * word;
      for (int64_t d = 0; d < kv.head_dim; ++d)
        std::memcpy(to + d * word, k + (d * kTileSlots + slot) * word, word_bytes);
      std::memcpy(store.v(layer, store_row, head) + p * kv.head_dim * word, v,
                  static_cast<size_t>(kv.head_dim) * word_bytes);
    }
  }
}

}  // namespace lockstep::ops
