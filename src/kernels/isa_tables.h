// SPDX-License-Identifier: Apache-2.0
// The one symbol that each instruction set's object files export. Call a getter only where select.cpp found that the
// CPU can run its code.
#pragma once

#include "kernels/table.h"

namespace lockstep::kernels {

const KernelTable& ref_table();
const KernelTable& avx2_table();
const KernelTable& avx512_table();
const KernelTable& avx512vnni_table();
const KernelTable& avx512bf16_table();  ///< VNNI and BF16

}  // namespace lockstep::kernels
