// SPDX-License-Identifier: Apache-2.0
// JSON from untrusted files: no duplicate keys, bounded depth and size, errors instead of exceptions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"
#include "nlohmann/json.hpp"

namespace lockstep::files {

struct JsonLimits {
  size_t max_depth = 64;
  size_t max_values = size_t{1} << 21;  ///< values of every kind; bounds memory to a few 100 MB
};

/// Parses one JSON value and nothing after it. Text must be UTF-8. Errors (kDataLoss) start with `source`. Thread-safe.
Expected<nlohmann::json> parse_json(std::string_view text, std::string_view source, const JsonLimits& limits = {});

/// "a string", "a negative integer", ... for messages.
std::string_view kind_of(const nlohmann::json& value);

}  // namespace lockstep::files
