// SPDX-License-Identifier: Apache-2.0
#include "cpu_subject.h"

namespace lockstep::conformance {

Subject& subject() { return cpu_subject(); }

}  // namespace lockstep::conformance
