// SPDX-License-Identifier: Apache-2.0
// The weights of quantised safetensors: what several tensors of a module say together becomes one matrix of rows.
#pragma once

#include <vector>

#include "base/status.h"
#include "files/checkpoint.h"
#include "files/quantization_config.h"

namespace lockstep::files {

/// Replaces the tensors of every quantised module by its NAME.weight [out, in]: FP8 as kBF16 rows, int8 as
/// kI8Channel (kI8ChannelA8 where activations are int8), 4 bits as Q4_0 or, with zero points other than 8, Q4_1 blocks,
/// 8 bits in groups as Q8_0 blocks. Modules that the file keeps in floats stay. Reads scales, zero points and group
/// indices, not weights. Errors name file, tensor, expected and found: a companion tensor that is missing, of another
/// shape or type; inputs that are out of order (GPTQ's desc_act); sizes that are no multiple of a group.
Expected<std::vector<TensorInfo>> make_quantized_tensors(std::vector<TensorInfo> stored,
                                                         const QuantizationConfig& config);

}  // namespace lockstep::files
