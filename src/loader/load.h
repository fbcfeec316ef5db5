// SPDX-License-Identifier: Apache-2.0
// Streams a checkpoint into packed weights, tensor by tensor: besides the packed weights only the file's pages are in
// use, and those of a finished tensor are given back, so peak anonymous memory stays within 1.1 x the packed weights.
#pragma once

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "loader/spec.h"
#include "loader/weights.h"
#include "ops/context.h"

namespace lockstep::loader {

/// Called after each piece of work on the loading thread. Bytes of the file's tensors: done so far, and in all.
using Progress = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

/// Checks all tensors first (check_tensors), then packs. Errors name file, tensor, expected and found; kW4A8 of a model
/// that is quantised already is kUnsupported, kW8A16 and kW8A8 of one log a warning and go through f32;
/// kResourceExhausted names the matrix that no memory was left for. progress may be empty.
Expected<DecoderWeights> load_decoder(const ops::Context& ctx, const Checkpoint& checkpoint, const DecoderSpec& spec,
                                      WeightsMode mode, const Progress& progress);

/// Bytes that load_decoder would hold for the checkpoint. Errors as load_decoder's checks.
Expected<int64_t> decoder_bytes(const Checkpoint& checkpoint, const DecoderSpec& spec, WeightsMode mode);
/// The same for a model stored wholly in `stored` (kF32, kF16 or kBF16), from the config alone.
int64_t decoder_bytes(const ModelConfig& config, const DecoderSpec& spec, WeightsMode mode, DType stored);

}  // namespace lockstep::loader
