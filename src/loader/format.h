// SPDX-License-Identifier: Apache-2.0
// Which format each matrix of a decoder is packed in.
#pragma once

#include "base/status.h"
#include "loader/spec.h"
#include "ops/matrix.h"

namespace lockstep::loader {

/// What a matrix is for. Embedding and head stay at 8 bits where the layers go to 4.
enum class Role { kLayer, kVocabulary };

/// `stored` is a type that ops::native_format knows.
kernels::WeightFormat format_of(DType stored, WeightsMode mode, Role role);

/// True if `mode` rounds weights that the checkpoint has quantised already; kUnsupported for kW4A8, naming the tensor.
/// The tensors have passed check_tensors.
Expected<bool> quantises_again(const Checkpoint& checkpoint, const DecoderSpec& spec, WeightsMode mode);

}  // namespace lockstep::loader
