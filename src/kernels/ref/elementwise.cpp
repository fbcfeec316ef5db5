// SPDX-License-Identifier: Apache-2.0
// Norm, rope, SiLU, choice and sums of exponentials: the definition.
#include "kernels/ref/ref_kernels.h"
#include "kernels/ref/scalar.h"

namespace lockstep::kernels::ref {

void rms_norm(const float* x, const float* w, float eps, int64_t n, float* out) {
  float lane[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lane[i % kLanes] = fma_f32(x[i], x[i], lane[i % kLanes]);
  const float mean = sum_tree16(lane) / static_cast<float>(n);
  const float inverse = 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + eps)));
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] * inverse) * w[i];
}

void rope(float* x, const float* cos, const float* sin, int64_t dim) {
  const int64_t half = dim / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float x0 = x[i];
    const float x1 = x[i + half];
    x[i] = fma_f32(x0, cos[i], -(x1 * sin[i]));
    x[i + half] = fma_f32(x1, cos[i], x0 * sin[i]);
  }
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = gate[i] / (1.0f + exp_scalar(-gate[i])) * up[i];
}

void add(float* x, const float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] += y[i];
}

ArgMax argmax(const float* x, int64_t n) {
  ArgMax best{0, x[0], true};
  for (int64_t i = 0; i < n; ++i) {
    best.finite &= (bits_of(x[i]) & 0x7f800000u) != 0x7f800000u;
    if (x[i] > best.value) {
      best.value = x[i];
      best.index = static_cast<int32_t>(i);
    }
  }
  return best;
}

float sum_exp(const float* x, int64_t n, float shift) {
  float lane[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) lane[i % kLanes] += exp_scalar(x[i] - shift);
  return sum_tree16(lane);
}

void exp_array(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = exp_scalar(x[i]);
}

}  // namespace lockstep::kernels::ref
