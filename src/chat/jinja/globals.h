// SPDX-License-Identifier: Apache-2.0
// The functions that every template has: range, dict, namespace, cycler, joiner, lipsum, raise_exception, strftime_now.
#pragma once

#include "chat/jinja/runtime.h"

namespace lockstep::chat::jinja {

void define_globals(Runtime& runtime);

}  // namespace lockstep::chat::jinja
