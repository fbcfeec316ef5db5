// SPDX-License-Identifier: Apache-2.0
// The tensor type numbers of GGUF files (enum ggml_type in the ggml project's ggml.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tensor/dtype.h"

namespace lockstep::files {

/// nullopt for a type that Lockstep does not read.
std::optional<DType> dtype_of_ggml_type(uint32_t type);

/// "IQ2_XXS (type 16)", or "type 77" for a number that ggml does not define either.
std::string ggml_type_text(uint32_t type);

}  // namespace lockstep::files
