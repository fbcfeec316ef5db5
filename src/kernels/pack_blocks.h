// SPDX-License-Identifier: Apache-2.0
// Stored blocks of the types of block_layout.h: read, packed and read back. Used by pack.h, which says what is public.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/pack.h"

namespace lockstep::kernels {

/// Sources Q5_0 .. IQ4_XS.
bool has_block_layout(SourceType source);
/// The format that runs a source as stored. Requires has_block_layout.
WeightFormat block_format(SourceType source);
/// Elements and bytes of a stored block.
int64_t block_elements(SourceType source);
int64_t block_bytes(SourceType source);
/// Where the f16 scale and minimum of a stored block of any type lie; m = d if it has no minimum.
struct ScaleOffsets {
  int64_t d, m;
};
ScaleOffsets scale_offsets(SourceType source);

/// Group g (elements 32 * g ..) of a source row as f32 [32].
void dequantize_block_group(SourceType source, const std::byte* row, int64_t g, float* out);
/// Fills in the columns of the rows that are not null; `out` holds zeros.
void pack_block_panel(SourceType source, const std::byte* const* rows, int64_t count, int64_t k, std::byte* out);
/// Group g of a column of a packed panel as f32 [32].
void unpack_block_group(WeightFormat format, const std::byte* panel, int64_t g, int64_t column, float* out);

}  // namespace lockstep::kernels
