// SPDX-License-Identifier: Apache-2.0
// A packed weight matrix and what packs it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kernels/packed.h"
#include "ops/context.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"

namespace lockstep::ops {

/// W [n, k] in panels (kernels/packed.h). Owns its storage. Immutable after packing, then thread-safe.
class Matrix {
 public:
  Matrix() = default;
  kernels::WeightFormat format() const { return format_; }
  int64_t n() const { return n_; }
  int64_t k() const { return k_; }
  bool empty() const { return n_ == 0; }
  int64_t bytes() const { return storage_.bytes(); }
  const std::byte* panel(int64_t index) const { return storage_.data() + index * panel_bytes_; }

  /// Row `row` (0..n-1) as f32 [k]: the embedding lookup of a packed matrix.
  void unpack_row(int64_t row, float* out) const;

 private:
  friend class MatrixBuilder;
  kernels::WeightFormat format_ = kernels::WeightFormat::kF32;
  int64_t n_ = 0;
  int64_t k_ = 0;
  int64_t panel_bytes_ = 0;
  Buffer storage_;
};

/// Packs a matrix from rows as they lie in a file. Rows may come from several tensors (q, k, v stacked; gate and up
/// stacked).
class MatrixBuilder {
 public:
  /// Books storage for n x k. kResourceExhausted names `what`.
  static Expected<MatrixBuilder> create(kernels::WeightFormat format, int64_t n, int64_t k, std::string_view what);
  /// Packs source rows to rows first..first+count-1. Source row i starts at source_rows[i] and has k elements of
  /// `dtype` (whole blocks for block types). Every pair (dtype, format) of: same type as stored; any of f32/f16/bf16
  /// and every block type to kF32 and kBF16 (dequantised, rounded to nearest even); others are kUnsupported. A block
  /// whose scale or minimum is not finite is kDataLoss. Split over ctx.pool. first must be a multiple of 16 or follow
  /// on. The source is not used after the call.
  Status add_rows(const Context& ctx, int64_t first, DType dtype, std::span<const std::byte* const> source_rows);
  Matrix finish() &&;

 private:
  Matrix matrix_;
  std::string what_;
  int64_t next_row_ = 0;
};

/// The format that runs tensors of `dtype` as stored (numerics.md); nullopt if there is none.
std::optional<kernels::WeightFormat> native_format(DType dtype);

}  // namespace lockstep::ops
