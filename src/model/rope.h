// SPDX-License-Identifier: Apache-2.0
// Inverse frequencies of rotary positions, as transformers computes them (modeling_rope_utils.py), by maths of our own:
// no libm, so the same bits on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "loader/spec.h"

namespace lockstep::model {

struct Rope {
  std::vector<float> inverse_frequencies;  ///< [head_dim / 2]
  float scale = 1.0f;                      ///< multiplies cos and sin (yarn's attention factor)
};

/// head_dim even; max_position is the model's context, used where the config gives no original length. max_model_len
/// is the context that is served (0: max_position): dynamic and longrope take the frequencies of a sequence of that
/// length for all sequences.
Rope make_rope(const loader::RopeConfig& config, int64_t head_dim, int64_t max_position, int64_t max_model_len = 0);

/// Natural logarithm for finite x > 0, double precision; relative error of about 1e-15.
double natural_log(double x);

}  // namespace lockstep::model
