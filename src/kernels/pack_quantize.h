// SPDX-License-Identifier: Apache-2.0
// The part of packing that rounds weights to fewer bits; pack.cpp calls it. Contracts of arguments: pack.h.
#pragma once

#include "kernels/pack.h"

namespace lockstep::kernels {

/// pack.cpp: elements first..first+count-1 of a source row as f32. first a multiple of 32, count <= 32.
void dequantize_part(SourceType source, const std::byte* row, int64_t first, int64_t count, float* out);

/// kW8A16 and kW8A8: per row, amax = largest |w|; scale = amax/127; q = round-to-nearest-even(w * (127/amax)); amax <
/// 2^-120 -> scale 0, q 0; NaN or infinity in the row -> scale NaN, q 0. `out` is zeroed before.
void quantize_channel_panel(SourceType source, const std::byte* const* rows, int64_t count, int64_t k, std::byte* out);
/// kW8A16 and kW8A8 from kI8Channel: scale and weights as they are. `out` is zeroed before.
void copy_channel_panel(const std::byte* const* rows, int64_t count, int64_t k, std::byte* out);
void unpack_channel_row(const std::byte* panel, int64_t k, int64_t column, float* out);

/// kQ4_1 from floats: per 32 weights, m = f16(smallest), d = f16((largest - smallest)/15), q =
/// clamp(round-to-nearest-even((w - m) * (1/d)), 0, 15); d = 0 -> q 0; NaN or infinity in the group -> d and m NaN.
/// `out` is zeroed before.
void quantize_q4_1_panel(SourceType source, const std::byte* const* rows, int64_t count, int64_t k, std::byte* out);

}  // namespace lockstep::kernels
