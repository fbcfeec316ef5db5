// SPDX-License-Identifier: Apache-2.0
// Paged grouped-query attention of one layer: writes this step's K/V, then attends. Exact for any batch, chunk, block
// size and thread count: fixed segments of 512 absolute positions, merged in ascending order (docs/numerics.md).
#pragma once

#include <cstdint>

#include "ops/context.h"
#include "step/step.h"
#include "tensor/buffer.h"
#include "tensor/view.h"

namespace lockstep::ops {

/// K or V of one layer of the pool.
struct KvLayer {
  std::byte* k = nullptr;  ///< [block][kv_head][block_size/16][head_dim][16]
  std::byte* v = nullptr;  ///< [block][kv_head][block_size/16][16][head_dim]
};

/// The rows of a step, as attention needs them. Host views of the StepArgs; idle rows (slot -1) are skipped.
struct AttentionRows {
  View<const int32_t> query_lens;     // [R]
  View<const int32_t> seq_lens;       // [R]
  View<const int32_t> token_offsets;  // [R + 1]  first token of each row in 0..T
  View<const int32_t> block_table;    // [R, max_blocks]
  View<const int32_t> slot_mapping;   // [T]
};

/// Scratch, booked once. Used by one attend at a time.
class AttentionScratch {
 public:
  /// threads: of the pool that will be used. max_model_len bounds the number of segments. About threads * (36 KB + 192
  /// * head_dim bytes), and room for the partial results of min(max_num_seqs, 2 * threads) rows that are cut by
  /// segments.
  static Expected<AttentionScratch> create(int threads, int64_t max_num_seqs, int64_t max_num_batched_tokens,
                                           int64_t max_model_len, int64_t num_heads, int64_t head_dim);
  int64_t bytes() const { return workers.bytes() + rows.bytes() + partials.bytes() + counters.bytes(); }

  Buffer workers;   ///< per thread: scores, scaled queries, accumulators
  Buffer rows;      ///< the plan of each row
  Buffer partials;  ///< [max_partials] maximum, sum, accumulator of a query row in a segment
  Buffer counters;  ///< [max_partials] segments of a task that are not done yet
  int64_t max_rows = 0;
  int64_t max_partials = 0;
  int threads = 0;
  int64_t head_dim = 0;
};

/// Rounds k and v of each token to the pool's dtype and writes them to its slot. k, v: [T, num_kv_heads * head_dim]
/// with any row stride. Slots of -1 are skipped.
void store_kv(const Context& ctx, const step::KvGeometry& kv, const KvLayer& layer, View<const int32_t> slot_mapping,
              View<const float> k, View<const float> v);

/// q, out [T, num_heads * head_dim] (row strides free); scores are (q * softmax_scale) . k. Query head h reads kv head
/// h / (num_heads / num_kv_heads). Reads only slots at positions up to the query's own. out of idle rows is untouched.
void attend(const Context& ctx, const step::KvGeometry& kv, const KvLayer& layer, const AttentionRows& rows,
            float softmax_scale, int64_t num_heads, View<const float> q, AttentionScratch& scratch, View<float> out);

}  // namespace lockstep::ops
