// SPDX-License-Identifier: Apache-2.0
// How fast a matmul kernel is when nothing comes from memory: the ceiling that benchmarks measure it against.
#pragma once

#include "base/status.h"
#include "ops/context.h"
#include "ops/matrix.h"

namespace lockstep::ops {

/// 1e9 floating-point (or integer) operations a second of all threads, two a multiply-add, over the first columns of w,
/// which stay in each core's cache, with as many rows as suit the kernel: the best of a few sizes and many runs, about
/// 0.1 s. Activations are quantised before, if the format wants that. kResourceExhausted names the buffer.
Expected<double> measure_matmul_ceiling(const Context& ctx, const Matrix& w);

}  // namespace lockstep::ops
