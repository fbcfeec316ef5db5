// SPDX-License-Identifier: Apache-2.0
// How many blocks the KV pool gets.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "base/status.h"
#include "engine/engine.h"
#include "engine/memory_probe.h"

namespace lockstep::engine {

/// Allocates the pool and returns its geometry. `options` with max_model_len resolved; after warm-up.
///
/// --num-kv-blocks or --kv-cache-memory if given, exactly; else the smaller of what max_num_seqs requests of
/// max_model_len need and memory_utilization x limit - resident, halved while the backend can't have it, down to one
/// full request. kResourceExhausted names the flag to lower.
Expected<step::KvGeometry> allocate_kv_pool(backend::Backend& backend, const EngineOptions& options,
                                            const MemoryProbe& memory);

}  // namespace lockstep::engine
