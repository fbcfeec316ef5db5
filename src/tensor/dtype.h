// SPDX-License-Identifier: Apache-2.0
// Storage types of tensors, plain and block-quantised.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kI8,
  kU8,
  kI32,
  kI64,
  kF8E4M3,
  kBool,
  // Blocks of GGUF files (ggml's block layouts).
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  // Rows of an f32 scale and k int8 weights, of quantised safetensors: rows that take f32 activations, and int8 ones.
  kI8Channel,
  kI8ChannelA8,
};

struct DTypeInfo {
  std::string_view name;   ///< "bf16", "q4_1"
  int64_t block_elements;  ///< elements a block holds; 1 for plain types
  int64_t block_bytes;     ///< bytes of a block; the element size for plain types. i8_channel: without the row's scale
};

const DTypeInfo& dtype_info(DType dtype);
inline std::string_view to_string(DType dtype) { return dtype_info(dtype).name; }

/// Bytes that `elements` take. nullopt if elements is negative, no multiple of the block, or the product overflows
/// int64.
std::optional<int64_t> dtype_bytes(DType dtype, int64_t elements);

/// Bytes of a kI8Channel or kI8ChannelA8 row of k weights.
inline int64_t channel_row_bytes(int64_t k) { return static_cast<int64_t>(sizeof(float)) + k; }

}  // namespace lockstep
