// SPDX-License-Identifier: Apache-2.0
// The filters of jinja2 3.1.6, with transformers' tojson.
#pragma once

#include <string_view>

#include "chat/jinja/ast.h"

namespace lockstep::chat::jinja {

/// Null when there is no such filter.
FilterFunction find_filter(std::string_view name);
/// True for filters that jinja2 has and Lockstep has not.
bool is_unsupported_filter(std::string_view name);

}  // namespace lockstep::chat::jinja
