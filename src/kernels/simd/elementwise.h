// SPDX-License-Identifier: Apache-2.0
// Norm, rope, SiLU, quantisation, choice and sums of exponentials over sixteen lanes; equal in bits to
// ref/elementwise.cpp. Include after the instruction set's lanes header.
#pragma once

#include "kernels/simd/tails.h"
#include "kernels/table.h"

namespace lockstep::kernels {
namespace {

void rms_norm(const float* x, const float* w, float eps, int64_t n, float* out) {
  Lanes squares = broadcast(0.0f);
  const auto add_square = [&](Lanes v) { squares = fma(v, v, squares); };
  for_lanes(
      n, [&](int64_t i) { add_square(load(x + i)); },
      [&](int64_t i, int64_t left) { add_square(load_first(x + i, left)); });
  const float mean = sum_tree16(squares) / static_cast<float>(n);
  const Lanes inverse = broadcast(1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + eps))));
  for_lanes(
      n, [&](int64_t i) { store(out + i, mul(mul(load(x + i), inverse), load(w + i))); },
      [&](int64_t i, int64_t left) {
        store_first(out + i, left, mul(mul(load_first(x + i, left), inverse), load_first(w + i, left)));
      });
}

void rope(float* x, const float* cos, const float* sin, int64_t dim) {
  const int64_t half = dim / 2;
  float* y = x + half;
  const auto first = [](Lanes a, Lanes b, Lanes c, Lanes s) { return fms(a, c, mul(b, s)); };
  const auto second = [](Lanes a, Lanes b, Lanes c, Lanes s) { return fma(b, c, mul(a, s)); };
  for_lanes(
      half,
      [&](int64_t i) {
        const Lanes a = load(x + i), b = load(y + i), c = load(cos + i), s = load(sin + i);
        store(x + i, first(a, b, c, s));
        store(y + i, second(a, b, c, s));
      },
      [&](int64_t i, int64_t left) {
        const Lanes a = load_first(x + i, left), b = load_first(y + i, left);
        const Lanes c = load_first(cos + i, left), s = load_first(sin + i, left);
        store_first(x + i, left, first(a, b, c, s));
        store_first(y + i, left, second(a, b, c, s));
      });
}

void silu_mul(const float* gate, const float* up, int64_t n, float* out) {
  const auto silu = [](Lanes g, Lanes u) { return mul(div(g, add(broadcast(1.0f), exp(negate(g)))), u); };
  for_lanes(
      n, [&](int64_t i) { store(out + i, silu(load(gate + i), load(up + i))); },
      [&](int64_t i, int64_t left) {
        store_first(out + i, left, silu(load_first(gate + i, left), load_first(up + i, left)));
      });
}

void add_to(float* x, const float* y, int64_t n) {
  for_lanes(
      n, [&](int64_t i) { store(x + i, add(load(x + i), load(y + i))); },
      [&](int64_t i, int64_t left) {
        store_first(x + i, left, add(load_first(x + i, left), load_first(y + i, left)));
      });
}

void exp_array(const float* x, int64_t n, float* out) {
  for_lanes(
      n, [&](int64_t i) { store(out + i, exp(load(x + i))); },
      [&](int64_t i, int64_t left) { store_first(out + i, left, exp(load_first(x + i, left))); });
}

float sum_exp(const float* x, int64_t n, float shift) {
  const Lanes shifts = broadcast(shift);
  Lanes total = broadcast(0.0f);
  for_lanes(
      n, [&](int64_t i) { total = add(total, exp(sub(load(x + i), shifts))); },
      [&](int64_t i, int64_t left) {
        total = add(total, keep_first(exp(sub(load_first(x + i, left), shifts)), left, broadcast(0.0f)));
      });
  return sum_tree16(total);
}

/// One pass for the largest value and finiteness, one for its first place.
ArgMax argmax(const float* x, int64_t n) {
  const Lanes lowest = broadcast(-__builtin_inff());
  Lanes largest = lowest;
  Lanes not_finite = broadcast(0.0f);  // x - x is NaN unless x is finite
  const auto look = [&](Lanes v) {
    largest = larger(v, largest);
    not_finite = add(not_finite, sub(v, v));
  };
  for_lanes(
      n, [&](int64_t i) { look(load(x + i)); },
      [&](int64_t i, int64_t left) { look(keep_first(load_first(x + i, left), left, broadcast(x[i]))); });
  if (sum_tree16(not_finite) != 0.0f) return {0, x[0], false};
  const Lanes value = broadcast(largest_lane(largest));
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t left = n - i < kLanes ? n - i : kLanes;
    const uint32_t mask = equal_mask(load_first(x + i, left), value) & ((1u << left) - 1u);
    if (mask != 0) {
      const int64_t index = i + __builtin_ctz(mask);
      return {static_cast<int32_t>(index), x[index], true};
    }
  }
  return {0, x[0], false};
}

/// 32 values; false if one is not finite.
LOCKSTEP_INLINE bool quantize_group(Lanes a, Lanes b, int8_t* q, float* scale, int32_t* total) {
  const uint32_t amax_bits = largest_magnitude_bits(a, b);
  const bool finite = amax_bits < 0x7f800000u;
  if (!finite || amax_bits < kQuantizeZeroBits) {
    const IntLanes zeros = round_to_int(broadcast(0.0f));
    store_int8(q, zeros);
    store_int8(q + kLanes, zeros);
    *scale = 0.0f;
    *total = 0;
    return finite;
  }
  const float amax = __builtin_bit_cast(float, amax_bits);
  const Lanes inverse = broadcast(127.0f / amax);
  const IntLanes first = round_to_int(mul(a, inverse));
  const IntLanes second = round_to_int(mul(b, inverse));
  store_int8(q, first);
  store_int8(q + kLanes, second);
  *scale = amax / 127.0f;
  *total = sum(add(first, second));
  return true;
}

bool quantize_g32(const float* x, int64_t k, int8_t* q, float* scale, int32_t* total) {
  bool finite = true;
  int64_t g = 0;
  for (; (g + 1) * kGroup <= k; ++g) {
    const float* from = x + g * kGroup;
    finite &= quantize_group(load(from), load(from + kLanes), q + g * kGroup, scale + g, total + g);
  }
  const int64_t left = k - g * kGroup;
  if (left > 0) {
    const float* from = x + g * kGroup;
    const int64_t first = left < kLanes ? left : kLanes;
    const Lanes a = load_first(from, first);
    const Lanes b = left > kLanes ? load_first(from + kLanes, left - kLanes) : broadcast(0.0f);
    finite &= quantize_group(a, b, q + g * kGroup, scale + g, total + g);
  }
  return finite;
}

}  // namespace
}  // namespace lockstep::kernels
