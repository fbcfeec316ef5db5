// SPDX-License-Identifier: Apache-2.0
// Models of the Hugging Face Hub, by name: from the cache if they are there, else downloaded into it.
#pragma once

#include <filesystem>

#include "base/status.h"
#include "hub/download.h"
#include "hub/model_name.h"
#include "hub/settings.h"

namespace lockstep::hub {

/// The folder of the model (a snapshot with config.json, tokenizer and safetensors), or its .gguf file if the name has
/// a file or the repository has no safetensors. What the cache has whole is used as it is, without a request; a newer
/// revision is fetched only under its own name. With settings.offline nothing is asked. `progress` may be empty.
/// Errors say what to do next. Blocks; several processes may do it at once.
Expected<std::filesystem::path> fetch_model(const ModelName& model, const Settings& settings, const Progress& progress);

}  // namespace lockstep::hub
