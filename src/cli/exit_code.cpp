// SPDX-License-Identifier: Apache-2.0
#include "cli/exit_code.h"

#include <cstdio>

namespace lockstep::cli {

int report_error(const Status& status) {
  std::fprintf(stderr, "lockstep: %s\n", status.message().c_str());
  return status.code() == StatusCode::kInvalidArgument ? 2 : 1;
}

}  // namespace lockstep::cli
