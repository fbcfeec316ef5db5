// SPDX-License-Identifier: Apache-2.0
// GGUF tensor names (PyPI gguf's tensor_mapping) as Hugging Face names. Internal to the room.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "files/model_config.h"

namespace lockstep::files {

struct GgufName {
  std::string name;               ///< Hugging Face name
  int64_t interleaved_heads = 0;  ///< see TensorInfo
};

/// A tensor that the architecture does not have is kUnsupported: leaving it out could give wrong tokens silently.
/// Except tables that only repeat the config: rope_freqs.weight and longrope's tables (see RopeConfig) and rotary
/// embeddings keep their own name.
Expected<GgufName> map_gguf_name(std::string_view name, const ModelConfig& config, const std::string& file);

}  // namespace lockstep::files
