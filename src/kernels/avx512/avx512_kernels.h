// SPDX-License-Identifier: Apache-2.0
// Each source file of the AVX-512 tables fills in its functions. The tests compile these files a second time, through
// SIMDe, into another namespace.
#pragma once

#include "kernels/table.h"

#ifdef LOCKSTEP_USE_SIMDE
#define LOCKSTEP_AVX512_NAMESPACE avx512_simde
#else
#define LOCKSTEP_AVX512_NAMESPACE avx512
#endif

namespace lockstep::kernels::LOCKSTEP_AVX512_NAMESPACE {

void add_float_matmul(KernelTable* table);
void add_int8_matmul(KernelTable* table);            ///< AVX-512 BW
void add_int8_matmul_vnni(KernelTable* table);       ///< AVX-512 VNNI
void add_block_matmul(KernelTable* table);           ///< AVX-512 BW
void add_block_matmul_vnni(KernelTable* table);      ///< AVX-512 VNNI
void add_channel_matmul(KernelTable* table);         ///< AVX-512 BW
void add_channel_matmul_vnni(KernelTable* table);    ///< AVX-512 VNNI
void add_bf16dot_matmul(KernelTable* table);         ///< emulated
void add_bf16dot_matmul_native(KernelTable* table);  ///< AVX512_BF16
void add_attention(KernelTable* table);
void add_elementwise(KernelTable* table);

}  // namespace lockstep::kernels::LOCKSTEP_AVX512_NAMESPACE
