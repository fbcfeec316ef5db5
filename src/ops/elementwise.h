// SPDX-License-Identifier: Apache-2.0
// Row-wise ops over [m, n] activations, split over threads by rows. Row strides are free.
#pragma once

#include "ops/context.h"
#include "ops/matrix.h"
#include "tensor/view.h"

namespace lockstep::ops {

/// out[t] = row ids[t] of the packed table. ids in 0..table.n-1 (validated before).
void embed(const Context& ctx, const Matrix& table, View<const int32_t> ids, View<float> out);
/// Root-mean-square norm of each row; w [n].
void rms_norm(const Context& ctx, View<const float> x, View<const float> w, float eps, View<float> out);
/// Norm of each head of each row in place: x [m, heads * dim], w [dim].
void head_norm(const Context& ctx, View<float> x, int64_t heads, View<const float> w, float eps);
/// cos, sin [T, dim/2] of position * inverse_frequency, each times `scale`; angles as HF: f32 product of f32 inverse
/// frequency and position.
void rope_table(const Context& ctx, View<const int32_t> positions, View<const float> inverse_frequencies, float scale,
                View<float> cos, View<float> sin);
/// Half-split rope on each head in place: x [T, heads * dim].
void rope(const Context& ctx, View<float> x, int64_t heads, View<const float> cos, View<const float> sin);
/// gate_up [m, 2n]: out [m, n] = silu(gate) * up, gate in the first n columns.
void silu_mul(const Context& ctx, View<const float> gate_up, View<float> out);
/// x += y.
void add(const Context& ctx, View<float> x, View<const float> y);
/// x[i] += bias for each row; bias [n].
void add_bias(const Context& ctx, View<float> x, View<const float> bias);

}  // namespace lockstep::ops
