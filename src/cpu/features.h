// SPDX-License-Identifier: Apache-2.0
// What this CPU (and its operating system's saved state) can run. Compiled with baseline flags only.
#pragma once

#include <string>

namespace lockstep::cpu {

struct Features {
  bool avx2 = false, fma = false, f16c = false;
  bool avx512 = false;  ///< F, BW, VL, DQ and the OS saves the state
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
};

Features detect_features();
/// Brand string, e.g. "AMD EPYC 7763".
std::string cpu_name();

}  // namespace lockstep::cpu
