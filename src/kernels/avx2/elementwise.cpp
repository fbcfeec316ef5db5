// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/lanes_avx2.h"
// The lanes come first.
#include "kernels/avx2/avx2_kernels.h"
#include "kernels/simd/elementwise.h"
#include "kernels/simd/fill.h"
#include "kernels/simd/quantize.h"

namespace lockstep::kernels::avx2 {

void add_elementwise(KernelTable* table) {
  table->quantize_g32 = quantize_g32;
  table->quantize_g64 = quantize_g64;
  table->quantize_row16 = quantize_row16;
  table->rms_norm = rms_norm;
  table->rope = rope;
  table->silu_mul = silu_mul;
  table->add = add_to;
  table->argmax = argmax;
  table->sum_exp = sum_exp;
  table->exp_array = exp_array;
}

}  // namespace lockstep::kernels::avx2
