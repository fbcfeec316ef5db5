// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/status.h"
#include "cli/engine_flags.h"

namespace lockstep::cli {

/// The path itself if it exists, else the local path of the Hugging Face Hub's model of that name, downloaded with a
/// bar on stderr where the cache lacks it (docs/hub.md).
Expected<std::string> local_path(const std::string& path_or_name);

/// Replaces --model by its local path.
Status make_local(EngineFlags& flags);

/// "org/name" of a name that local_path would ask the Hub for, else "".
std::string hub_repository(const std::string& path_or_name);

}  // namespace lockstep::cli
