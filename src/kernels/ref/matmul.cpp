// SPDX-License-Identifier: Apache-2.0
// Matmul and activation quantisation, one output at a time: the definition that every other table must equal in bits.
#include <cstddef>

#include "kernels/ref/ref_kernels.h"
#include "kernels/ref/scalar.h"

namespace lockstep::kernels {
namespace {

template <class Word>
const Word* panel_words(const std::byte* panel) {
  return reinterpret_cast<const Word*>(panel);
}

struct F32Weight {
  static constexpr WeightFormat kFormat = WeightFormat::kF32;
  static float at(const std::byte* panel, int64_t k, int64_t column) {
    return panel_words<float>(panel)[k * kPanelColumns + column];
  }
};
struct F16Weight {
  static constexpr WeightFormat kFormat = WeightFormat::kF16;
  static float at(const std::byte* panel, int64_t k, int64_t column) {
    return from_f16(panel_words<uint16_t>(panel)[k * kPanelColumns + column]);
  }
};
struct BF16Weight {
  static constexpr WeightFormat kFormat = WeightFormat::kBF16;
  static float at(const std::byte* panel, int64_t k, int64_t column) {
    return from_bf16(panel_words<uint16_t>(panel)[(k / 2 * kPanelColumns + column) * 2 + k % 2]);
  }
};

template <class Weight>
void matmul_float(const MatmulArgs& a) {
  const int64_t bytes = panel_bytes(Weight::kFormat, a.k);
  for (int64_t row = 0; row < a.m; ++row) {
    const float* x = a.x + row * a.x_stride;
    for (int64_t column = 0; column < a.n; ++column) {
      const std::byte* panel = a.weights + column / kPanelColumns * bytes;
      float sum = 0.0f;
      for (int64_t k = 0; k < a.k; ++k) sum = fma_f32(x[k], Weight::at(panel, k, column % kPanelColumns), sum);
      a.out[row * a.out_stride + column] = sum;
    }
  }
}

/// value(group, i, column) is the integer weight; scale index 0 is d, 1 is m.
struct Q8Group {
  static constexpr int64_t kBytes = kQ8GroupBytes;
  static constexpr int64_t kScales = kGroup * kPanelColumns;
  static int32_t value(const std::byte* group, int64_t i, int64_t column) {
    return panel_words<int8_t>(group)[(i / 4 * kPanelColumns + column) * 4 + i % 4];
  }
};
int32_t nibble(const std::byte* group, int64_t i, int64_t column) {
  const int64_t j = i % (kGroup / 2);
  const uint8_t pair = panel_words<uint8_t>(group)[(j / 4 * kPanelColumns + column) * 4 + j % 4];
  return i < kGroup / 2 ? pair & 15 : pair >> 4;
}
struct Q4_0Group {
  static constexpr int64_t kBytes = kQ4_0GroupBytes;
  static constexpr int64_t kScales = kGroup * kPanelColumns / 2;
  static int32_t value(const std::byte* group, int64_t i, int64_t column) { return nibble(group, i, column) - 8; }
};
struct Q4_1Group {
  static constexpr int64_t kBytes = kQ4_1GroupBytes;
  static constexpr int64_t kScales = kGroup * kPanelColumns / 2;
  static int32_t value(const std::byte* group, int64_t i, int64_t column) { return nibble(group, i, column); }
};

template <class Group, bool kHasMin>
float dot_groups(const MatmulArgs& a, const std::byte* panel, int64_t row, int64_t column) {
  const int8_t* x = a.xq + row * a.xq_stride;
  float sum = 0.0f;
  for (int64_t g = 0; g < num_groups(a.k); ++g) {
    const std::byte* group = panel + g * Group::kBytes;
    const uint16_t* scales = panel_words<uint16_t>(group + Group::kScales);
    int32_t products = 0;
    for (int64_t i = 0; i < kGroup; ++i) products += x[g * kGroup + i] * Group::value(group, i, column);
    const float x_scale = a.x_scale[row * a.group_stride + g];
    sum = fma_f32(static_cast<float>(products), x_scale * from_f16(scales[column]), sum);
    if (kHasMin) {
      const float x_sum = static_cast<float>(a.x_sum[row * a.group_stride + g]);
      sum = fma_f32(x_scale * x_sum, from_f16(scales[kPanelColumns + column]), sum);
    }
  }
  return sum;
}

template <class Group, bool kHasMin = false>
void matmul_groups(const MatmulArgs& a) {
  const int64_t bytes = num_groups(a.k) * Group::kBytes;
  for (int64_t row = 0; row < a.m; ++row) {
    for (int64_t column = 0; column < a.n; ++column) {
      const std::byte* panel = a.weights + column / kPanelColumns * bytes;
      a.out[row * a.out_stride + column] = dot_groups<Group, kHasMin>(a, panel, row, column % kPanelColumns);
    }
  }
}

/// Quantises `count` <= 32 values to 32; false if one is not finite.
bool quantize_group(const float* x, int64_t count, int8_t* q, float* scale, int32_t* sum) {
  uint32_t amax_bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t magnitude = bits_of(x[i]) & 0x7fffffffu;
    amax_bits = magnitude > amax_bits ? magnitude : amax_bits;
  }
  const bool finite = amax_bits < 0x7f800000u;
  const bool zero = !finite || amax_bits < kQuantizeZeroBits;
  const float amax = float_of(amax_bits);
  const float inverse = zero ? 0.0f : 127.0f / amax;
  int32_t total = 0;
  for (int64_t i = 0; i < kGroup; ++i) {
    const int32_t value = zero || i >= count ? 0 : _mm_cvt_ss2si(_mm_set_ss(x[i] * inverse));
    q[i] = static_cast<int8_t>(value);
    total += value;
  }
  *scale = zero ? 0.0f : amax / 127.0f;
  *sum = total;
  return finite;
}

}  // namespace

namespace ref {

void matmul_f32(const MatmulArgs& args) { matmul_float<F32Weight>(args); }
void matmul_f16(const MatmulArgs& args) { matmul_float<F16Weight>(args); }
void matmul_bf16(const MatmulArgs& args) { matmul_float<BF16Weight>(args); }
void matmul_q8g32(const MatmulArgs& args) { matmul_groups<Q8Group>(args); }
void matmul_q4_0(const MatmulArgs& args) { matmul_groups<Q4_0Group>(args); }
void matmul_q4_1(const MatmulArgs& args) { matmul_groups<Q4_1Group, true>(args); }

bool quantize_g32(const float* x, int64_t k, int8_t* q, float* scale, int32_t* sum) {
  bool finite = true;
  for (int64_t g = 0; g < num_groups(k); ++g) {
    const int64_t left = k - g * kGroup;
    finite &= quantize_group(x + g * kGroup, left < kGroup ? left : kGroup, q + g * kGroup, scale + g, sum + g);
  }
  return finite;
}

}  // namespace ref
}  // namespace lockstep::kernels
