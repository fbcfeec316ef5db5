// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/lanes_avx2.h"
// The lanes come first.
#include "kernels/avx2/avx2_kernels.h"
#include "kernels/simd/fill.h"
#include "kernels/simd/matmul_bf16dot.h"

namespace lockstep::kernels {
namespace {

struct Avx2Dot : EmulatedDot {
  static constexpr int kRows = 4, kPanels = 1, kWideRows = 1, kWidePanels = 2;
};

}  // namespace

namespace avx2 {

void add_bf16dot_matmul(KernelTable* table) {
  set_matmul(table, WeightFormat::kBF16Dot, matmul_bf16dot<Avx2Dot>);
  table->round_row_bf16 = round_row_bf16;
}

}  // namespace avx2
}  // namespace lockstep::kernels
