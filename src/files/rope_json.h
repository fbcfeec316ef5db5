// SPDX-License-Identifier: Apache-2.0
// The rope fields of config.json in both styles. Internal to the room.
#pragma once

#include "base/status.h"
#include "files/json_fields.h"
#include "files/model_config.h"

namespace lockstep::files {

/// Older style: rope_theta beside rope_scaling {"rope_type" or "type", ...}; transformers 5: rope_parameters with
/// rope_theta in it. `max_position` is max_position_embeddings. Unknown rope types and fields that change rope
/// otherwise are kUnsupported.
Expected<RopeConfig> read_rope(const JsonFields& config, int64_t max_position);

}  // namespace lockstep::files
