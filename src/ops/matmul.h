// SPDX-License-Identifier: Apache-2.0
// Activations times packed weights, split over threads by output columns (and rows), never over k.
#pragma once

#include <cstdint>

#include "ops/context.h"
#include "ops/matrix.h"
#include "tensor/view.h"

namespace lockstep::ops {

/// Storage for rows rounded to int8, int16 or bf16, whatever a weight format takes; booked once for the largest step.
class QuantizedRows {
 public:
  static Expected<QuantizedRows> create(int64_t max_rows, int64_t max_k);
  int64_t bytes() const;
  /// Writes every page.
  void touch();
  int64_t max_rows() const { return max_rows_; }
  kernels::Activations kind() const { return kind_; }  ///< what quantize_rows made last
  /// Points the fields of quantised rows in `args` at rows first_row.. of what quantize_rows made from rows of k
  /// elements.
  void bind(int64_t k, int64_t first_row, kernels::MatmulArgs& args) const;

 private:
  friend void quantize_rows(const Context&, kernels::Activations, View<const float>, QuantizedRows&, View<int32_t>);
  Buffer q_, scale_, sum_;
  int64_t max_rows_ = 0, max_k_ = 0;
  kernels::Activations kind_ = kernels::Activations::kInt8G32;
};

/// Quantises x [m, k] to `kind` (not kF32): to be called when what will use x takes such activations. row_ok [m] (may
/// be empty) is set to 0 for rows with NaN or infinity, else left alone.
void quantize_rows(const Context& ctx, kernels::Activations kind, View<const float> x, QuantizedRows& out,
                   View<int32_t> row_ok);

/// out [m, w.n] = x [m, w.k] * W^T. For formats with quantised activations the rows of `quantized` (made by
/// quantize_rows from the same x, for this format) are used, x is then not read. m in 1..capacity.
void matmul(const Context& ctx, const Matrix& w, View<const float> x, QuantizedRows& quantized, View<float> out);

}  // namespace lockstep::ops
