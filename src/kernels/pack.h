// SPDX-License-Identifier: Apache-2.0
// Makes packed panels (packed.h) from rows as files store them, and reads single rows back. Plain code, runs once at
// load; thread-safe, allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "kernels/packed.h"

namespace lockstep::kernels {

/// How a file stores a row of k weights. Little endian. The block types are ggml's (ggml-quants.c): 32 consecutive
/// weights, Q8_0 = f16 d, i8 q[32]; Q4_0 = f16 d, u8 q[16] (low nibbles 0..15, high 16..31), weight d * (q - 8); Q4_1 =
/// f16 d, f16 m, the same nibbles, weight d * q + m (a multiplication, then an addition).
enum class SourceType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  // Blocks of 32 and (K, XS) 256 weights, in the order of WeightFormat.
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kI8Channel  ///< f32 scale, then i8 [k]: weight scale * q
};

/// Weights of a stored block: 1, 32 or 256. Rows of k weights need k to be a multiple of it.
int64_t source_block_elements(SourceType source);
/// Bytes of a source row.
int64_t source_row_bytes(SourceType source, int64_t k);
/// True if the f16 scales and minimums of all blocks of a row are finite (plain types have none).
bool has_finite_scales(SourceType source, const std::byte* row, int64_t k);

/// True if pack_panel can make `format` from `source`: any source to f32 (exact), bf16, bf16dot and f16 (rounded to
/// nearest even); block types also to the format of the same name, bit for bit; any source to w8a16 and w8a8, and
/// floats to Q4_1 (rounding: pack_quantize.h; kI8Channel keeps its scale and weights in w8a16 and w8a8). Blocks are
/// never rounded to 4 bits again.
bool can_pack(WeightFormat format, SourceType source);

/// Packs up to 16 rows into one panel of panel_bytes(format, k) bytes. rows[i] points at row i (any alignment); columns
/// count..15, and those whose rows[i] is null, become zeros. Requires can_pack, 1 <= count <= 16, k >= 1.
void pack_panel(WeightFormat format, SourceType source, const std::byte* const* rows, int64_t count, int64_t k,
                std::byte* out);

/// All n rows, row i at first + i * row_stride bytes, into packed_bytes(format, n, k) bytes.
void pack_matrix(WeightFormat format, SourceType source, const std::byte* first, int64_t row_stride, int64_t n,
                 int64_t k, std::byte* out);

/// A source row as f32; exact but for the rounding of d * q and d * q + m.
void dequantize_row(SourceType source, const std::byte* row, int64_t k, float* out);

/// Row `row` of a packed matrix as f32: the values of dequantize_row for the formats as stored.
void unpack_row(WeightFormat format, const std::byte* packed, int64_t k, int64_t row, float* out);

}  // namespace lockstep::kernels
