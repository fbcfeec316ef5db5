// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/status.h"

namespace lockstep::cli {

/// Prints "lockstep: <message>" to stderr and returns the exit status: 2 for a value that the caller gave wrong,
/// else 1.
int report_error(const Status& status);

}  // namespace lockstep::cli
