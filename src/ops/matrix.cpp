// SPDX-License-Identifier: Apache-2.0
#include "ops/matrix.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <utility>

#include "base/check.h"
#include "kernels/pack.h"
#include "ops/split.h"

namespace lockstep::ops {
namespace {

using kernels::kPanelColumns;
using kernels::SourceType;
using kernels::WeightFormat;

std::optional<SourceType> source_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return SourceType::kF32;
    case DType::kF16:
      return SourceType::kF16;
    case DType::kBF16:
      return SourceType::kBF16;
    case DType::kQ8_0:
      return SourceType::kQ8_0;
    case DType::kQ4_0:
      return SourceType::kQ4_0;
    case DType::kQ4_1:
      return SourceType::kQ4_1;
    case DType::kQ5_0:
      return SourceType::kQ5_0;
    case DType::kQ5_1:
      return SourceType::kQ5_1;
    case DType::kQ2_K:
      return SourceType::kQ2_K;
    case DType::kQ3_K:
      return SourceType::kQ3_K;
    case DType::kQ4_K:
      return SourceType::kQ4_K;
    case DType::kQ5_K:
      return SourceType::kQ5_K;
    case DType::kQ6_K:
      return SourceType::kQ6_K;
    case DType::kIQ4_NL:
      return SourceType::kIQ4_NL;
    case DType::kIQ4_XS:
      return SourceType::kIQ4_XS;
    case DType::kI8Channel:
    case DType::kI8ChannelA8:
      return SourceType::kI8Channel;
    default:
      return std::nullopt;
  }
}

/// Packs `count` rows into columns first_column.. of a panel whose columns before that are filled and after that are
/// zero.
void pack_into_filled_panel(WeightFormat format, SourceType source, const std::byte* const* rows, int64_t count,
                            int64_t first_column, int64_t k, std::byte* panel) {
  std::array<const std::byte*, kPanelColumns> columns = {};  // null: zeros
  std::copy(rows, rows + count, columns.begin() + first_column);
  const int64_t bytes = kernels::panel_bytes(format, k);
  // Aligned as panels are: pack_panel may write words.
  auto added = std::make_unique<std::array<std::byte, 64>[]>(static_cast<size_t>(ceil_div(bytes, 64)));
  std::byte* packed = added[0].data();
  kernels::pack_panel(format, source, columns.data(), first_column + count, k, packed);
  for (int64_t i = 0; i < bytes; ++i) panel[i] |= packed[i];
}

}  // namespace

std::optional<WeightFormat> native_format(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return WeightFormat::kF32;
    case DType::kF16:
      return WeightFormat::kF16;
    case DType::kBF16:
      return WeightFormat::kBF16;
    case DType::kQ8_0:
      return WeightFormat::kQ8G32;
    case DType::kQ4_0:
      return WeightFormat::kQ4_0;
    case DType::kQ4_1:
      return WeightFormat::kQ4_1;
    case DType::kQ5_0:
      return WeightFormat::kQ5_0;
    case DType::kQ5_1:
      return WeightFormat::kQ5_1;
    case DType::kQ2_K:
      return WeightFormat::kQ2_K;
    case DType::kQ3_K:
      return WeightFormat::kQ3_K;
    case DType::kQ4_K:
      return WeightFormat::kQ4_K;
    case DType::kQ5_K:
      return WeightFormat::kQ5_K;
    case DType::kQ6_K:
      return WeightFormat::kQ6_K;
    case DType::kIQ4_NL:
      return WeightFormat::kIQ4_NL;
    case DType::kIQ4_XS:
      return WeightFormat::kIQ4_XS;
    case DType::kI8Channel:
      return WeightFormat::kW8A16;
    case DType::kI8ChannelA8:
      return WeightFormat::kW8A8;
    default:
      return std::nullopt;
  }
}

void Matrix::unpack_row(int64_t row, float* out) const {
  LOCKSTEP_CHECK(row >= 0 && row < n_);
  kernels::unpack_row(format_, storage_.data(), k_, row, out);
}

Expected<MatrixBuilder> MatrixBuilder::create(WeightFormat format, int64_t n, int64_t k, std::string_view what) {
  constexpr int64_t kMaxExtent = int64_t{1} << 31;  // keeps 4 * k * 16 in range
  int64_t bytes = 0;
  if (n < 1 || k < 1 || n > kMaxExtent || k > kMaxExtent ||
      __builtin_mul_overflow(kernels::num_panels(n), kernels::panel_bytes(format, k), &bytes)) {
    return invalid_argument("{}: a matrix of {} x {} cannot be packed", what, n, k);
  }
  MatrixBuilder builder;
  LOCKSTEP_ASSIGN_OR_RETURN(builder.matrix_.storage_, Buffer::allocate(bytes, what));
  builder.matrix_.format_ = format;
  builder.matrix_.n_ = n;
  builder.matrix_.k_ = k;
  builder.matrix_.panel_bytes_ = kernels::panel_bytes(format, k);
  builder.what_ = what;
  return builder;
}

Status MatrixBuilder::add_rows(const Context& ctx, int64_t first, DType dtype,
                               std::span<const std::byte* const> source_rows) {
  const auto count = static_cast<int64_t>(source_rows.size());
  const WeightFormat format = matrix_.format_;
  const int64_t k = matrix_.k_;
  if (first < 0 || first + count > matrix_.n_ || (first % kPanelColumns != 0 && first != next_row_)) {
    return invalid_argument("{}: rows {}..{} do not fit a matrix of {} rows after row {}", what_, first, first + count,
                            matrix_.n_, next_row_);
  }
  const std::optional<SourceType> source = source_type(dtype);
  if (!source || !kernels::can_pack(format, *source) || k % dtype_info(dtype).block_elements != 0) {
    return error(StatusCode::kUnsupported, "{}: rows of {} {} weights cannot be packed as {}", what_, k,
                 to_string(dtype), kernels::to_string(format));
  }
  const int64_t first_panel = first / kPanelColumns;
  const int64_t end = first + count;
  std::atomic<bool> finite = true;
  ctx.pool->parallel_for(ceil_div(end, kPanelColumns) - first_panel, [&](int64_t piece, int) {
    const int64_t panel_start = (first_panel + piece) * kPanelColumns;
    const int64_t from = std::max(first, panel_start);
    const int64_t rows = std::min(end, panel_start + kPanelColumns) - from;
    std::byte* panel = matrix_.storage_.data() + (first_panel + piece) * matrix_.panel_bytes_;
    const std::byte* const* sources = source_rows.data() + (from - first);
    for (int64_t i = 0; i < rows; ++i) {
      if (!kernels::has_finite_scales(*source, sources[i], k)) finite = false;
    }
    if (from == panel_start) {
      kernels::pack_panel(format, *source, sources, rows, k, panel);
    } else {
      pack_into_filled_panel(format, *source, sources, rows, from - panel_start, k, panel);
    }
  });
  if (!finite) return error(StatusCode::kDataLoss, "{}: a block's scale or minimum is not finite", what_);
  next_row_ = end;
  return Status();
}

Matrix MatrixBuilder::finish() && { return std::move(matrix_); }

}  // namespace lockstep::ops
