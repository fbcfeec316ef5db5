// SPDX-License-Identifier: Apache-2.0
// What config.json and GGUF metadata have in common. Internal to the room.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"
#include "files/model_config.h"

namespace lockstep::files {

/// nullopt if `name` (as in model_type and general.architecture) is none of ours.
std::optional<Architecture> architecture_of(std::string_view name);
/// "qwen3, qwen2, llama"
std::string_view supported_architectures();

/// Fills head_dim if it is 0 (`qwen3_default`: 128 for Qwen3, as its config class) and checks every size and product.
/// Errors: kDataLoss, or kUnsupported for shapes that are possible elsewhere.
Status finish_sizes(ModelConfig& config, bool qwen3_default);
/// Every field of config.rope, after finish_sizes: make_rope() then gives finite frequencies. kDataLoss.
Status check_rope(const ModelConfig& config);
/// Both.
Status finish_config(ModelConfig& config, bool qwen3_default);

/// model_config_from_gguf() for a model split over files: metadata from the first, tensors from all.
Expected<ModelConfig> model_config_from_parts(std::span<const GgufFile* const> parts);

}  // namespace lockstep::files
