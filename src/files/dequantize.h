// SPDX-License-Identifier: Apache-2.0
// Stored tensor values as f32. Block layouts: ggml-common.h of the ggml project; values equal PyPI gguf's dequantize in
// bits.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"
#include "tensor/dtype.h"

namespace lockstep::files {

/// True for f32, f16, bf16 and every block type of DType.
bool can_dequantize(DType dtype);

/// Fills `out` with the values of `data`. out.size() must be a multiple of the block (dtype_info) and data.size() the
/// bytes of that many elements, else kInvalidArgument; kUnsupported for types that can_dequantize() denies. `data`
/// needs no alignment. Not a kernel: about 1 GB/s of output; for loading and as the reference of the kernels.
/// Thread-safe.
Status dequantize(DType dtype, std::span<const std::byte> data, std::span<float> out);

}  // namespace lockstep::files
