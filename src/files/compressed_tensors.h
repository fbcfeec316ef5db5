// SPDX-License-Identifier: Apache-2.0
// quantization_config of compressed-tensors. Internal to the room.
#pragma once

#include <optional>

#include "files/quantization_config.h"

namespace lockstep::files {

/// `fields`: quantization_config. One group of settings, for whichever modules have quantised weights in the file.
Expected<QuantizationConfig> read_compressed_tensors(const JsonFields& fields);

/// -1 becomes 0 (all of a row); kUnsupported if it is no multiple of 32.
Expected<int64_t> checked_group_size(const JsonFields& fields, const char* field, std::optional<int64_t> size);

}  // namespace lockstep::files
