// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "subject.h"

namespace lockstep::conformance {

/// The CPU backend under test.
Subject& cpu_subject();

}  // namespace lockstep::conformance
