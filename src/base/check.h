// SPDX-License-Identifier: Apache-2.0
// Checks for bugs. Never reachable from a request or a file: those get a Status.
#pragma once

namespace lockstep {
/// Prints the place and the condition to stderr and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition);
}  // namespace lockstep

#define LOCKSTEP_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::lockstep::check_failed(__FILE__, __LINE__, #condition))
