// SPDX-License-Identifier: Apache-2.0
// Which tensors a decoder needs, under their Hugging Face names, and the check that a checkpoint has exactly these.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "files/checkpoint.h"

namespace lockstep::loader {

using files::Architecture;
using files::Checkpoint;
using files::ModelConfig;
using files::RopeConfig;
using files::RopeType;

/// How weights are held. kNative: as stored (docs/numerics.md's mode of the stored type). kBF16, kF32: everything
/// converted or dequantised to that; f32 is the mode that golden values are compared in; bf16dot rounds activations to
/// bf16 too. kW8A16, kW8A8, kW4A8: matrices quantised while loading; w4a8 keeps embedding and head as w8a8.
enum class WeightsMode { kNative, kBF16, kF32, kBF16Dot, kW8A16, kW8A8, kW4A8 };
std::string_view to_string(WeightsMode mode);

/// What an architecture says about its weights; sizes come from the config.
struct DecoderSpec {
  bool qkv_bias = false;
  bool o_bias = false;
  bool qk_norm = false;
  /// Head and embedding are one matrix. An lm_head.weight in the file is then ignored.
  bool tied_head = false;
};

/// A tensor that must be there.
struct TensorSpec {
  std::string name;
  std::vector<int64_t> shape;  ///< [out, in] or [n]
};

/// All tensors of a decoder, in loading order. `prefix` is "model." or "" (embedding models saved without it).
std::vector<TensorSpec> required_tensors(const ModelConfig& config, const DecoderSpec& spec, const std::string& prefix);
/// "" if the checkpoint names its embedding "embed_tokens.weight", else "model.".
std::string name_prefix(const Checkpoint& checkpoint);

/// One error naming file, tensor, expected and found when a needed tensor is missing, of the wrong shape or of a type
/// that no format holds, or when the checkpoint has a weight of the decoder that the architecture has no use for
/// (leaving it out would be silently wrong). Buffers such as rotary inv_freq are ignored, tensors outside the decoder
/// are ignored with a warning.
Status check_tensors(const Checkpoint& checkpoint, const DecoderSpec& spec);

}  // namespace lockstep::loader
