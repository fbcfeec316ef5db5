// SPDX-License-Identifier: Apache-2.0
// Asked before anything recursive (a copy, a conversion) walks over JSON that somebody sent.
#pragma once

#include "nlohmann/json.hpp"

namespace lockstep::chat {

inline constexpr int kMaxJsonDepth = 200;

/// Objects and arrays more than `levels` inside one another.
bool is_deeper_than(const nlohmann::ordered_json& json, int levels);

}  // namespace lockstep::chat
