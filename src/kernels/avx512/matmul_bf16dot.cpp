// SPDX-License-Identifier: Apache-2.0
// bf16 dot products on AVX-512 without BF16.
#include "kernels/simd/lanes_avx512.h"
// The lanes come first.
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/simd/fill.h"
#include "kernels/simd/matmul_bf16dot.h"

namespace lockstep::kernels {
namespace {

struct Avx512Dot : EmulatedDot {
  static constexpr int kRows = 12, kPanels = 2, kWideRows = 4, kWidePanels = 4;
};

}  // namespace

namespace LOCKSTEP_AVX512_NAMESPACE {

void add_bf16dot_matmul(KernelTable* table) {
  set_matmul(table, WeightFormat::kBF16Dot, matmul_bf16dot<Avx512Dot>);
  table->round_row_bf16 = round_row_bf16;
}

}  // namespace LOCKSTEP_AVX512_NAMESPACE
}  // namespace lockstep::kernels
