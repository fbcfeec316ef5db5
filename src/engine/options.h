// SPDX-License-Identifier: Apache-2.0
// Checks and resolves EngineOptions.
#pragma once

#include "backend/backend.h"
#include "base/status.h"
#include "engine/engine.h"

namespace lockstep::engine {

/// The options with 0 values resolved from what the backend can do. kInvalidArgument names the flag, the value and the
/// limit. Without chunked prefill the token budget is raised to a whole context beside full decode rows.
Expected<EngineOptions> resolve(EngineOptions options, const backend::Capabilities& capabilities);

}  // namespace lockstep::engine
