// SPDX-License-Identifier: Apache-2.0
// Grouped-query attention over K and V that lie in one piece for each row: the hand-written baseline that paged
// attention (ops/attention.h) is compared with, in bits by tests and in time by benchmarks. It shares the paged one's
// arithmetic (segments of 512 absolute positions, merged in ascending order), and neither its layout nor its planning.
#pragma once

#include <cstdint>

#include "ops/attention.h"
#include "ops/context.h"
#include "step/step.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace lockstep::ops {

struct ContiguousShape {
  int64_t num_layers = 0;
  int64_t num_rows = 0;  ///< of storage, and of a step at most
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_model_len = 0;
  DType dtype = DType::kBF16;  ///< kBF16 or kF32
  int threads = 1;             ///< of the pool that will be used
};

/// The storage, [layer][row][kv_head][max_model_len][head_dim] for K and as much for V (max_model_len rounded up to 16
/// positions), and the scratch of attend_contiguous. Used by one op at a time.
class ContiguousKv {
 public:
  ContiguousKv() = default;
  /// kResourceExhausted names the buffer.
  static Expected<ContiguousKv> create(const ContiguousShape& shape);

  const ContiguousShape& shape() const { return shape_; }
  int64_t bytes() const {
    return keys_.bytes() + values_.bytes() + workers_.bytes() + partials_.bytes() + pieces_.bytes();
  }
  /// First position of K (or V) of a kv head: [positions][head_dim].
  std::byte* k(int64_t layer, int64_t row, int64_t kv_head) const { return keys_.data() + offset(layer, row, kv_head); }
  std::byte* v(int64_t layer, int64_t row, int64_t kv_head) const {
    return values_.data() + offset(layer, row, kv_head);
  }

  /// A worker's scratch: scores, scaled queries, two accumulators, tiles of K.
  float* worker(int index) const { return workers_.as<float>() + index * worker_floats(); }
  /// Results of one query head in one segment of a one-token row of the step; those of neighbouring heads follow.
  struct Partial {
    float *max, *sum, *acc;
  };
  Partial partial(int64_t row, int64_t segment, int64_t head) const;
  int64_t* first_pieces() const { return pieces_.as<int64_t>(); }  ///< [num_rows + 1]

 private:
  int64_t offset(int64_t layer, int64_t row, int64_t kv_head) const;
  int64_t worker_floats() const;
  int64_t max_segments() const;

  ContiguousShape shape_;
  Buffer keys_, values_, workers_, partials_, pieces_;
};

/// Rounds k and v of each token of the step to the dtype and writes them to its row's storage, store_rows[r] for row r
/// of the step, at its position. Idle rows (slot -1) are skipped.
void store_contiguous(const Context& ctx, ContiguousKv& store, int64_t layer, const AttentionRows& rows,
                      View<const int32_t> store_rows, View<const float> k, View<const float> v);

/// As ops::attend, with the same bits, over rows store_rows[r] of the storage. Does not look at rows.block_table.
void attend_contiguous(const Context& ctx, ContiguousKv& store, int64_t layer, const AttentionRows& rows,
                       View<const int32_t> store_rows, float softmax_scale, View<const float> q, View<float> out);

/// Copies positions 0..positions-1 of one layer from a row's pages (block_table: its page ids) to row `store_row`.
void copy_from_pages(const step::KvGeometry& kv, const KvLayer& pages, View<const int32_t> block_table,
                     int64_t positions, ContiguousKv& store, int64_t layer, int64_t store_row);

}  // namespace lockstep::ops
