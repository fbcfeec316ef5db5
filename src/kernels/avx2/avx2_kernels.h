// SPDX-License-Identifier: Apache-2.0
// Each source file of the AVX2 table fills in its functions.
#pragma once

#include "kernels/table.h"

namespace lockstep::kernels::avx2 {

void add_float_matmul(KernelTable* table);
void add_int8_matmul(KernelTable* table);
void add_block_matmul(KernelTable* table);
void add_channel_matmul(KernelTable* table);
void add_bf16dot_matmul(KernelTable* table);
void add_attention(KernelTable* table);
void add_elementwise(KernelTable* table);

}  // namespace lockstep::kernels::avx2
