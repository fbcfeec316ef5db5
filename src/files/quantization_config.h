// SPDX-License-Identifier: Apache-2.0
// quantization_config of config.json: how the matrices of a safetensors folder are quantised. Fields and values as the
// writers have them: compressed-tensors (llm-compressor), DeepSeek's and vLLM's fp8, AutoGPTQ and GPTQModel, AutoAWQ.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "files/json_fields.h"

namespace lockstep::files {

enum class QuantizationScheme : uint8_t {
  kNone,
  kFp8,     ///< weight f8_e4m3; scales of blocks, output channels or the whole tensor
  kInt8,    ///< weight int8, a scale for each output channel or the whole tensor
  kPacked,  ///< compressed-tensors' pack-quantized: 4 or 8 bits along a row
  kGptq,    ///< 4 or 8 bits along a column
  kAwq,     ///< 4 bits across columns ("gemm" order)
};
/// "fp8", "int8", "pack-quantized", "gptq", "awq".
std::string_view to_string(QuantizationScheme scheme);

struct QuantizationConfig {
  QuantizationScheme scheme = QuantizationScheme::kNone;
  int64_t bits = 8;        ///< of a weight: 4 or 8
  int64_t group_size = 0;  ///< inputs that share a scale, a multiple of 32; 0: all of a row
  int64_t block_rows = 0;  ///< kFp8: outputs and inputs of a block; 0: no blocks
  int64_t block_columns = 0;
  bool int8_activations = false;      ///< kInt8: activations are int8 too, scaled as they come
  bool stored_zero_less_one = false;  ///< kGptq: format 1 stores zero point - 1
};

/// Reads quantization_config (or compression_config) of the fields of a config.json; kNone if it has neither.
/// kUnsupported names a method or setting that would give wrong results if it were ignored, kDataLoss a field of the
/// wrong kind.
Expected<QuantizationConfig> read_quantization(const JsonFields& config);

}  // namespace lockstep::files
