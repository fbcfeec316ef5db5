// SPDX-License-Identifier: Apache-2.0
// The step contract: the only way into a backend. One call advances every row by one step: embedding, all layers with
// paged attention, final norm, head and choice. Every view has exactly the rows in use; the storage behind it has the
// capacity, and rows past the prefix are neither read nor written.
//
// R rows: the first D are decode/verify rows (1..8 tokens each), then prefill chunks (any number of tokens).
// T tokens in all, in row order. S = sum(sample_counts) sampled positions, in row order.
#pragma once

#include <cstdint>

#include "step/device_view.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace lockstep::step {

/// Width of the token ABI: tokens a decode row may bring, and ids it may get, in one step.
inline constexpr int64_t kTokenWidth = 8;
inline constexpr int64_t kMaxLogprobs = 20;

enum class RowStatus : int32_t { kOk = 0, kNonFinite = 1 };
enum class Pooling : int32_t { kNone = 0, kLast = 1, kMean = 2 };

/// How each row's sampled positions are chosen. Every view has R rows (or R + 1 offsets). Order of application: token
/// mask, logit_bias, penalties, temperature, min_p, top_k, top_p. Ties: the smallest id. All-empty views in a group
/// mean "off for all rows": temperature empty = all greedy.
struct SamplingView {
  View<const float> temperature;         // [R]  0 = greedy
  View<const int32_t> top_k;             // [R]  0 = off
  View<const float> top_p;               // [R]  (0, 1], 1 = off
  View<const float> min_p;               // [R]  [0, 1], 0 = off
  View<const uint64_t> seed;             // [R]
  View<const int32_t> choice;            // [R]  index of the choice (n > 1): second half of the random key
  View<const float> repetition_penalty;  // [R]  > 0, 1 = off
  View<const float> presence_penalty;    // [R]  0 = off
  View<const float> frequency_penalty;   // [R]  0 = off
  View<const int32_t> count_offsets;     // [R + 1]  CSR of token counts for penalties
  View<const int32_t> count_ids;         // [nnz]  ascending within a row
  View<const int32_t> count_outputs;     // [nnz]  times the id was generated; 0 = in the prompt only
  View<const int32_t> bias_offsets;      // [R + 1]  CSR of logit_bias
  View<const int32_t> bias_ids;          // [nnz]  ascending, unique within a row
  View<const float> bias_values;         // [nnz]
  View<const int32_t> mask_index;        // [R]  row of `masks`, -1 = no mask
  View<const uint32_t> masks;            // [num_masks, ceil(vocab / 32)]  bit set = allowed
  View<const int32_t> logprobs_k;        // [R]  -1 none, 0 the chosen id only, else 1..20 best ids too
};

/// The inputs of one call. Host memory, owned by the caller, unchanged until wait() returns.
struct StepArgs {
  uint64_t step_id = 0;
  int64_t num_decode_rows = 0;    // D
  View<const int32_t> token_ids;  // [D, 8]  row r uses columns 0..query_lens[r]-1; empty if D = 0
  View<const int32_t> input_ids;  // [T - sum(query_lens[0..D))]  packed tokens of rows D..R-1; empty if none
  View<const int32_t>
      token_source;  // [D]  -1, or the row of step step_id - 1 whose last sampled id feeds column 0; empty = all -1
  View<const int32_t> query_lens;  // [R]  tokens of this step, >= 1
  View<const int32_t> seq_lens;    // [R]  length including this step's tokens
  View<const int32_t>
      sample_counts;  // [R]  0 = mid-prompt (no head), k = the last k positions, k in 0..min(8, query_len)
  View<const int32_t> block_table;  // [R, max_blocks]  -1 = unused
  View<const int32_t>
      slot_mapping;  // [T]  page * block_size + position % block_size; -1 on all tokens of a row = idle row
  SamplingView sampling;
  View<const int32_t> score_targets;  // [T]  -1 none: logprob of this id after token t; empty = none at all
  View<const int32_t> pooling;        // [R]  Pooling; empty = none
  View<const int32_t> pooling_slot;   // [R]  accumulator slot 0..max_num_seqs-1 of a mean-pooled row; a chunk that
                                      // starts at position 0 clears it
};

/// Where results go: views of the caller's device buffers. The backend writes there and nowhere else.
struct StepOutputs {
  DeviceView sampled_ids;  // i32 [R, 8]  columns 0..k-1 are the k sampled positions in order, the rest untouched
  DeviceView row_status;   // i32 [R]  RowStatus; idle rows untouched
  DeviceView logprobs;  // f32 [S]  of the chosen ids; NaN for rows with logprobs_k = -1. Needed if any logprobs_k >= 0
  DeviceView top_ids;   // i32 [S, k]  k = the largest logprobs_k; entries past a row's own k: -1. Needed if k > 0
  DeviceView top_logprobs;        // f32 [S, k]  entries past a row's own k: NaN
  DeviceView logits;              // f32 [S, padded_vocab]  only if not empty; padding is -inf
  DeviceView score_logprobs;      // f32 [T]  NaN where the target is -1. Needed if score_targets is given
  DeviceView score_ranks;         // i32 [T]  1 = most likely; 0 where the target is -1
  DeviceView score_top_ids;       // i32 [T, k]  only if not empty, k <= 20
  DeviceView score_top_logprobs;  // f32 [T, k]
  DeviceView next_hidden;         // f32 [S, hidden]  after the final norm; only if not empty
  DeviceView
      pooled;  // f32 [R, hidden]  not normalised; rows without pooling, or whose prompt goes on, hold the state so far
};

/// Shape of the paged KV store. One layout for prefill and decode:
/// K: [layer][block][kv_head][block_size / 16][head_dim][16], V: [layer][block][kv_head][block_size /
/// 16][16][head_dim].
struct KvGeometry {
  int64_t num_layers = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t block_size = 16;  ///< 16, 32, 64, 128 or 256 slots
  int64_t num_blocks = 0;
  DType dtype = DType::kBF16;  ///< kBF16 or kF32

  /// Elements of one block of one layer's K (V has the same).
  int64_t block_elements() const { return num_kv_heads * block_size * head_dim; }
  /// Bytes of K and V of one block over all layers.
  int64_t bytes_per_block() const { return 2 * num_layers * block_elements() * dtype_info(dtype).block_bytes; }
  int64_t total_bytes() const { return num_blocks * bytes_per_block(); }
};

}  // namespace lockstep::step
