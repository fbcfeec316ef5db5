// SPDX-License-Identifier: Apache-2.0
// Row sources of quantised safetensors (row_source.h). Sizes are checked by quantized_tensors.cpp. Internal to the
// room.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "files/quantization_config.h"
#include "files/row_source.h"
#include "tensor/dtype.h"

namespace lockstep::files {

/// A matrix [n, k] of one stored byte a weight, each with a scale.
struct ByteWeights {
  std::span<const std::byte> weights = {};  ///< [n][k]
  int64_t n = 0;
  int64_t k = 0;
  std::vector<float> scales = {};  ///< [ceil(n / block_rows)][ceil(k / block_columns)]
  int64_t block_rows = 1;
  int64_t block_columns = 1;
};

/// f8_e4m3 (OCP: no infinities, 0x7f is NaN) to bf16 rows: the product of f32 value and f32 scale, rounded to nearest
/// even.
std::unique_ptr<RowSource> fp8_rows(ByteWeights weights);
/// int8 to rows of kI8Channel or kI8ChannelA8. block_columns is k.
std::unique_ptr<RowSource> int8_rows(ByteWeights weights);

/// A matrix [n, k] of 4 or 8-bit codes u in 32-bit words; weight = (u - zero) * scale.
struct CodedWeights {
  QuantizationScheme scheme = QuantizationScheme::kPacked;  ///< kPacked, kGptq or kAwq: how codes lie in words
  int64_t bits = 4;
  int64_t n = 0;
  int64_t k = 0;           ///< a multiple of 32 but for 8 bits without groups
  int64_t group_size = 0;  ///< divides k; a multiple of 32, or k
  std::span<const std::byte> words = {};
  std::vector<float> scales = {};   ///< [n][k / group_size]
  std::vector<uint8_t> zeros = {};  ///< the same; empty: all in the middle, 8 or 128
  DType dtype = DType::kQ4_0;       ///< kQ4_0 and kQ8_0 (zeros in the middle), kQ4_1, kI8Channel (one group)
};
/// Block types hold the scale as f16, and Q4_1's minimum is f16(-f16(scale) * zero).
std::unique_ptr<RowSource> coded_rows(CodedWeights weights);

/// AutoAWQ's words hold columns 0, 2, 4, 6, 1, 3, 5, 7: where column `column` of its 8 lies.
int64_t awq_position(int64_t column);

}  // namespace lockstep::files
