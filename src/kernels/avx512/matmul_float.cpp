// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/lanes_avx512.h"
// The lanes come first.
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/simd/fill.h"
#include "kernels/simd/matmul_float.h"

namespace lockstep::kernels::LOCKSTEP_AVX512_NAMESPACE {

void add_float_matmul(KernelTable* table) {
  set_matmul(table, WeightFormat::kF32, matmul_float<F32Weights>);
  set_matmul(table, WeightFormat::kF16, matmul_float<F16Weights>);
  set_matmul(table, WeightFormat::kBF16, matmul_float<BF16Weights>);
}

}  // namespace lockstep::kernels::LOCKSTEP_AVX512_NAMESPACE
