// SPDX-License-Identifier: Apache-2.0
// The tests of jinja2 3.1.6: what may stand behind `is`.
#pragma once

#include <string_view>

#include "chat/jinja/ast.h"

namespace lockstep::chat::jinja {

/// Null when there is no such test.
TestFunction find_predicate(std::string_view name);

}  // namespace lockstep::chat::jinja
