// SPDX-License-Identifier: Apache-2.0
#include "chat/json_depth.h"

#include <algorithm>

namespace lockstep::chat {

bool is_deeper_than(const nlohmann::ordered_json& json, int levels) {
  if (!json.is_structured()) return false;
  if (levels <= 0) return true;
  return std::any_of(json.begin(), json.end(), [levels](const auto& item) { return is_deeper_than(item, levels - 1); });
}

}  // namespace lockstep::chat
