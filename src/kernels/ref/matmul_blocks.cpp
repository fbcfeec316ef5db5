// SPDX-License-Identifier: Apache-2.0
// Matmul over the formats of block_layout.h, one output at a time: the definition.
#include <cstddef>

#include "kernels/block_layout.h"
#include "kernels/ref/ref_kernels.h"
#include "kernels/ref/scalar.h"

namespace lockstep::kernels {
namespace {

template <WeightFormat kFormat>
struct BlockReader {
  static constexpr BlockLayout kLayout = block_layout(kFormat);
  static constexpr UnitBytes kAt = unit_bytes(kLayout);

  const std::byte* unit;
  int64_t in_unit;
  int64_t column;

  BlockReader(const std::byte* panel, int64_t g, int64_t column_in)
      : unit(panel + g / kLayout.unit_groups * kAt.unit), in_unit(g % kLayout.unit_groups), column(column_in) {}

  int32_t byte_at(int64_t index) const { return static_cast<uint8_t>(unit[index]); }
  int32_t bits(int64_t plane, int64_t width, int64_t i) const {
    const int64_t word = i / 4;
    const int32_t byte =
        byte_at(in_unit * kAt.group + plane * kPanelColumns * 4 + (word % width * kPanelColumns + column) * 4 + i % 4);
    return byte >> (word / width * width) & ((1 << width) - 1);
  }
  /// Element i as an integer.
  int32_t value(int64_t i) const {
    int32_t code = bits(0, kLayout.low_bits, i);
    if constexpr (kLayout.high_bits > 0) code |= bits(kLayout.low_bits, kLayout.high_bits, i) << kLayout.low_bits;
    return kLayout.is_iq4 ? kIq4Values[code] : code - kLayout.zero;
  }
  int64_t scale_index(int64_t s) const { return (in_unit * kLayout.sub_blocks + s) * kPanelColumns + column; }
  int32_t scale(int64_t s) const {
    const int32_t byte = byte_at(kAt.scales + scale_index(s));
    if (kLayout.scales == BlockScales::kI8) return static_cast<int8_t>(byte);
    return kLayout.scales == BlockScales::kNibbles ? byte & 15 : byte;
  }
  int32_t min(int64_t s) const {
    return kLayout.scales == BlockScales::kNibbles ? byte_at(kAt.scales + scale_index(s)) >> 4
                                                   : byte_at(kAt.mins + scale_index(s));
  }
  float half(int64_t offset) const {
    return from_f16(static_cast<uint16_t>(byte_at(offset + 2 * column) | byte_at(offset + 2 * column + 1) << 8));
  }
  float d(int64_t s) const {
    const float d = half(kAt.d);
    return kLayout.scales == BlockScales::kNone ? d : d * static_cast<float>(scale(s));
  }
  float m(int64_t s) const {
    const float m = half(kAt.d + 2 * kPanelColumns);
    return kLayout.scales == BlockScales::kNone ? m : m * static_cast<float>(min(s));
  }
};

template <WeightFormat kFormat>
float dot_blocks(const MatmulArgs& a, const std::byte* panel, int64_t row, int64_t column) {
  constexpr BlockLayout kLayout = block_layout(kFormat);
  constexpr int64_t kLength = kGroup / kLayout.sub_blocks;
  float sum = 0.0f;
  for (int64_t g = 0; g < num_groups(a.k); ++g) {
    const BlockReader<kFormat> group(panel, g, column);
    const float x_scale = a.x_scale[row * a.group_stride + g];
    for (int64_t s = 0; s < kLayout.sub_blocks; ++s) {
      const int8_t* x = a.xq + row * a.xq_stride + g * kGroup + s * kLength;
      int32_t products = 0;
      int32_t x_sum = 0;
      for (int64_t i = 0; i < kLength; ++i) {
        products += x[i] * group.value(s * kLength + i);
        x_sum += x[i];
      }
      sum = fma_f32(static_cast<float>(products), x_scale * group.d(s), sum);
      if (kLayout.has_min) sum = fma_f32(x_scale * static_cast<float>(x_sum), group.m(s), sum);
    }
  }
  return sum;
}

template <WeightFormat kFormat>
void matmul_blocks(const MatmulArgs& a) {
  constexpr BlockLayout kLayout = block_layout(kFormat);
  constexpr int64_t kUnit = unit_bytes(kLayout).unit;
  const int64_t bytes = (num_groups(a.k) + kLayout.unit_groups - 1) / kLayout.unit_groups * kUnit;
  for (int64_t row = 0; row < a.m; ++row) {
    for (int64_t column = 0; column < a.n; ++column) {
      const std::byte* panel = a.weights + column / kPanelColumns * bytes;
      a.out[row * a.out_stride + column] = dot_blocks<kFormat>(a, panel, row, column % kPanelColumns);
    }
  }
}

}  // namespace

namespace ref {

void matmul_q5_0(const MatmulArgs& args) { matmul_blocks<WeightFormat::kQ5_0>(args); }
void matmul_q5_1(const MatmulArgs& args) { matmul_blocks<WeightFormat::kQ5_1>(args); }
void matmul_q2_k(const MatmulArgs& args) { matmul_blocks<WeightFormat::kQ2_K>(args); }
void matmul_q3_k(const MatmulArgs& args) { matmul_blocks<WeightFormat::kQ3_K>(args); }
void matmul_q4_k(const MatmulArgs& args) { matmul_blocks<WeightFormat::kQ4_K>(args); }
void matmul_q5_k(const MatmulArgs& args) { matmul_blocks<WeightFormat::kQ5_K>(args); }
void matmul_q6_k(const MatmulArgs& args) { matmul_blocks<WeightFormat::kQ6_K>(args); }
void matmul_iq4_nl(const MatmulArgs& args) { matmul_blocks<WeightFormat::kIQ4_NL>(args); }
void matmul_iq4_xs(const MatmulArgs& args) { matmul_blocks<WeightFormat::kIQ4_XS>(args); }

}  // namespace ref
}  // namespace lockstep::kernels
