// SPDX-License-Identifier: Apache-2.0
// Matmuls with one weight scale per output channel (w8a16, w8a8) and their activations, one output at a time: the
// definition that every other table must equal in bits.
#include <cstddef>

#include "kernels/ref/ref_kernels.h"
#include "kernels/ref/scalar.h"

namespace lockstep::kernels {
namespace {

int32_t weight_at(const std::byte* panel, int64_t k, int64_t column) {
  return reinterpret_cast<const int8_t*>(panel)[(k / 4 * kPanelColumns + column) * 4 + k % 4];
}
float channel_scale(const std::byte* panel, int64_t k, int64_t column) {
  return reinterpret_cast<const float*>(panel + channel_quads(k) * kQuadBytes)[column];
}
/// Where element k of a row of int16 activations lies.
int64_t pair_index(int64_t k) { return k / 4 * 4 + (k % 2) * 2 + k % 4 / 2; }
int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

float dot_w8a16(const MatmulArgs& a, const std::byte* panel, int64_t row, int64_t column) {
  const int16_t* x = a.xq16 + row * a.xq_stride;
  float sum = 0.0f;
  for (int64_t first = 0; first < a.k; first += kExactElements) {
    int32_t products = 0;
    for (int64_t k = first; k < smaller(a.k, first + kExactElements); ++k) {
      products += x[pair_index(k)] * weight_at(panel, k, column);
    }
    sum += static_cast<float>(products);
  }
  return sum * (a.x_scale[row * a.group_stride] * channel_scale(panel, a.k, column));
}

float dot_w8a8(const MatmulArgs& a, const std::byte* panel, int64_t row, int64_t column) {
  const int8_t* x = a.xq + row * a.xq_stride;
  float sum = 0.0f;
  for (int64_t first = 0; first < a.k; first += kChannelGroup) {
    int32_t products = 0;
    for (int64_t k = first; k < smaller(a.k, first + kChannelGroup); ++k)
      products += x[k] * weight_at(panel, k, column);
    sum = fma_f32(static_cast<float>(products), a.x_scale[row * a.group_stride + first / kChannelGroup], sum);
  }
  return sum * channel_scale(panel, a.k, column);
}

template <float (*kDot)(const MatmulArgs&, const std::byte*, int64_t, int64_t)>
void matmul_channel(const MatmulArgs& a) {
  for (int64_t row = 0; row < a.m; ++row) {
    for (int64_t column = 0; column < a.n; ++column) {
      const std::byte* panel = a.weights + column / kPanelColumns * channel_panel_bytes(a.k);
      a.out[row * a.out_stride + column] = kDot(a, panel, row, column % kPanelColumns);
    }
  }
}

uint32_t largest_magnitude_bits(const float* x, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t magnitude = bits_of(x[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}
int32_t round_to_int(float x) { return _mm_cvt_ss2si(_mm_set_ss(x)); }

}  // namespace

namespace ref {

void matmul_w8a16(const MatmulArgs& args) { matmul_channel<dot_w8a16>(args); }
void matmul_w8a8(const MatmulArgs& args) { matmul_channel<dot_w8a8>(args); }

bool quantize_g64(const float* x, int64_t k, int8_t* q, float* scale, int32_t* sum) {
  bool finite = true;
  for (int64_t g = 0; g < num_channel_groups(k); ++g) {
    const float* from = x + g * kChannelGroup;
    const int64_t count = smaller(kChannelGroup, k - g * kChannelGroup);
    const uint32_t amax_bits = largest_magnitude_bits(from, count);
    const bool is_finite = amax_bits < 0x7f800000u;
    const bool zero = !is_finite || amax_bits < kQuantizeZeroBits;
    const float inverse = zero ? 0.0f : 127.0f / float_of(amax_bits);
    sum[g] = 0;
    for (int64_t i = 0; i < kChannelGroup; ++i) {
      const int32_t value = zero || i >= count ? 0 : round_to_int(from[i] * inverse);
      q[g * kChannelGroup + i] = static_cast<int8_t>(value);
      sum[g] += value;
    }
    scale[g] = zero ? 0.0f : float_of(amax_bits) / 127.0f;
    finite &= is_finite;
  }
  return finite;
}

bool quantize_row16(const float* x, int64_t k, int16_t* q, float* scale) {
  const uint32_t amax_bits = largest_magnitude_bits(x, k);
  const bool finite = amax_bits < 0x7f800000u;
  const bool zero = !finite || amax_bits < kQuantize16ZeroBits;
  const float inverse = zero ? 0.0f : 2047.0f / float_of(amax_bits);
  for (int64_t i = 0; i < num_channel_groups(k) * kChannelGroup; ++i) {
    q[pair_index(i)] = static_cast<int16_t>(zero || i >= k ? 0 : round_to_int(x[i] * inverse));
  }
  *scale = zero ? 0.0f : float_of(amax_bits) / 2047.0f;
  return finite;
}

}  // namespace ref
}  // namespace lockstep::kernels
