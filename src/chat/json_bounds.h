// SPDX-License-Identifier: Apache-2.0
// Bounds for JSON that somebody sent. An ordered_json object is searched key by key, so that an object of n keys costs
// n^2 to build; and most walks over a value are recursive.
#pragma once

#include <optional>
#include <string_view>

#include "nlohmann/json.hpp"

namespace lockstep::chat {

inline constexpr int kMaxJsonDepth = 200;
inline constexpr size_t kMaxJsonKeys = 4096;  ///< of one object

/// Objects and arrays more than `levels` inside one another.
bool is_deeper_than(const nlohmann::ordered_json& json, int levels);

/// Absent when the text is not JSON, or an object in it has more than kMaxJsonKeys keys.
std::optional<nlohmann::ordered_json> parse_bounded_json(std::string_view text);

}  // namespace lockstep::chat
