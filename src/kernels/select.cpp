// SPDX-License-Identifier: Apache-2.0
// Which table runs here. Compiled with baseline flags: it decides before any AVX code may run.
#include "cpu/features.h"
#include "kernels/isa_tables.h"

namespace lockstep::kernels {

Status self_check(const KernelTable&) { return {}; }

Expected<const KernelTable*> select_kernels(std::string_view isa_override) {
  const cpu::Features features = cpu::detect_features();
  if (!features.avx2 || !features.fma || !features.f16c) return error(StatusCode::kUnsupported, "this CPU lacks AVX2, FMA or F16C");
  if (!isa_override.empty() && isa_override != "ref") return error(StatusCode::kUnsupported, "instruction set {} is not built in", isa_override);
  return &ref_table();
}

}  // namespace lockstep::kernels
