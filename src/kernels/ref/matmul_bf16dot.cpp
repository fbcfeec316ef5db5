// SPDX-License-Identifier: Apache-2.0
// Matmul with bf16 weights and bf16 activations, one output at a time: the definition that every other table must equal
// in bits. It is what Intel's manual says of VDPBF16PS ("DAZ, FTZ, RNE; the odd products first"), and what a Zen 4
// does.
#include <cstddef>

#include "kernels/flush_denormals.h"
#include "kernels/ref/ref_kernels.h"
#include "kernels/ref/scalar.h"

namespace lockstep::kernels {
namespace {

[[gnu::noinline]] void matmul_pairs(const MatmulArgs& a) {
  const int64_t bytes = panel_bytes(WeightFormat::kBF16Dot, a.k);
  for (int64_t row = 0; row < a.m; ++row) {
    const uint16_t* x = a.xb16 + row * a.xq_stride;
    for (int64_t column = 0; column < a.n; ++column) {
      const auto* panel = reinterpret_cast<const uint16_t*>(a.weights + column / kPanelColumns * bytes);
      float sum = 0.0f;
      for (int64_t pair = 0; pair < bf16_pairs(a.k); ++pair) {
        const uint16_t* w = panel + (pair * kPanelColumns + column % kPanelColumns) * 2;
        sum = fma_f32(from_bf16(x[2 * pair + 1]), from_bf16(w[1]), sum);
        sum = fma_f32(from_bf16(x[2 * pair]), from_bf16(w[0]), sum);
      }
      a.out[row * a.out_stride + column] = sum;
    }
  }
}

}  // namespace

namespace ref {

void matmul_bf16dot(const MatmulArgs& args) {
  const FlushDenormals flush;
  matmul_pairs(args);
}

bool round_row_bf16(const float* x, int64_t k, uint16_t* out) {
  uint32_t largest = 0;
  const int64_t padded = num_channel_groups(k) * kChannelGroup;
  for (int64_t i = 0; i < padded; ++i) {
    out[i] = i < k ? to_bf16(x[i]) : uint16_t{0};
    const uint32_t magnitude = out[i] & 0x7fffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest < 0x7f80u;
}

}  // namespace ref
}  // namespace lockstep::kernels
