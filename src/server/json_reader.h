// SPDX-License-Identifier: Apache-2.0
// Request bodies as JSON: untrusted text, no exceptions, no quadratic cost.
#pragma once

#include <cstddef>
#include <string_view>

#include "server/api_error.h"

namespace lockstep::server {

inline constexpr size_t kMaxJsonDepth = 100;

/// Parses one JSON value. Key order is kept, of equal keys the last value counts. 400 for what is not JSON, for bytes
/// that are not UTF-8, lone surrogates (api.md, decision 13), numbers past a double, and more than kMaxJsonDepth
/// brackets; messages give the byte's place and quote nothing of the body. Cost is linear in the body's size.
ApiResult<Json> parse_body(std::string_view body);

}  // namespace lockstep::server
