// SPDX-License-Identifier: Apache-2.0
// Single values of small stored tensors (scales, shapes), which need not be aligned.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/half.h"
#include "files/checkpoint.h"

namespace lockstep::files {

/// Element `index` of a tensor whose dtype is T's; below elements_of(tensor).
template <class T>
T element(const TensorInfo& tensor, int64_t index) {
  T value;
  std::memcpy(&value, tensor.data.data() + index * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

inline bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16; }

/// As f32, of a tensor that is_float().
inline float float_at(const TensorInfo& tensor, int64_t index) {
  if (tensor.dtype == DType::kF32) return element<float>(tensor, index);
  const auto bits = element<uint16_t>(tensor, index);
  return tensor.dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

inline int64_t elements_of(const TensorInfo& tensor) {
  return static_cast<int64_t>(tensor.data.size()) / dtype_info(tensor.dtype).block_bytes;
}

/// "[2, 3]".
inline std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace lockstep::files
