// SPDX-License-Identifier: Apache-2.0
#include "chat/json_bounds.h"

#include <algorithm>
#include <vector>

namespace lockstep::chat {

bool is_deeper_than(const nlohmann::ordered_json& json, int levels) {
  if (!json.is_structured()) return false;
  if (levels <= 0) return true;
  return std::any_of(json.begin(), json.end(), [levels](const auto& item) { return is_deeper_than(item, levels - 1); });
}

std::optional<nlohmann::ordered_json> parse_bounded_json(std::string_view text) {
  using Event = nlohmann::ordered_json::parse_event_t;
  std::vector<size_t> keys;  // of the objects that are open
  bool too_many = false;
  const auto check = [&](int, Event event, nlohmann::ordered_json&) {
    if (event == Event::object_start) keys.push_back(0);
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key && ++keys.back() > kMaxJsonKeys) too_many = true;
    return !too_many || event != Event::key;  // a key that is dropped isn't searched for
  };
  auto parsed = nlohmann::ordered_json::parse(text, check, /*allow_exceptions=*/false);
  if (parsed.is_discarded() || too_many) return std::nullopt;
  return parsed;
}

}  // namespace lockstep::chat
