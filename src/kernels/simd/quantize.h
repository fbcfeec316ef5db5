// SPDX-License-Identifier: Apache-2.0
// Activations of the formats with one weight scale per output channel. Include after the lanes header.
#pragma once

#include "kernels/simd/tails.h"
#include "kernels/table.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kGroupLanes = kChannelGroup / kLanes;

/// The 16 lanes from i on, zeros past k.
LOCKSTEP_INLINE Lanes load_up_to(const float* x, int64_t i, int64_t k) {
  if (i + kLanes <= k) return load(x + i);
  return i < k ? load_first(x + i, k - i) : broadcast(0.0f);
}
LOCKSTEP_INLINE uint32_t larger_bits(uint32_t a, uint32_t b) { return a > b ? a : b; }

bool quantize_g64(const float* x, int64_t k, int8_t* q, float* scale, int32_t* total) {
  bool finite = true;
  for (int64_t first = 0; first < k; first += kChannelGroup, q += kChannelGroup, ++scale, ++total) {
    Lanes v[kGroupLanes];
    for (int64_t i = 0; i < kGroupLanes; ++i) v[i] = load_up_to(x, first + i * kLanes, k);
    const uint32_t amax_bits = larger_bits(largest_magnitude_bits(v[0], v[1]), largest_magnitude_bits(v[2], v[3]));
    const bool is_finite = amax_bits < 0x7f800000u;
    finite &= is_finite;
    if (!is_finite || amax_bits < kQuantizeZeroBits) {
      for (int64_t i = 0; i < kGroupLanes; ++i) store_int8(q + i * kLanes, round_to_int(broadcast(0.0f)));
      *scale = 0.0f;
      *total = 0;
      continue;
    }
    const float amax = __builtin_bit_cast(float, amax_bits);
    const Lanes inverse = broadcast(127.0f / amax);
    IntLanes values[kGroupLanes];
    for (int64_t i = 0; i < kGroupLanes; ++i) {
      values[i] = round_to_int(mul(v[i], inverse));
      store_int8(q + i * kLanes, values[i]);
    }
    *scale = amax / 127.0f;
    *total = sum(add(add(values[0], values[1]), add(values[2], values[3])));
  }
  return finite;
}

bool quantize_row16(const float* x, int64_t k, int16_t* q, float* scale) {
  uint32_t amax_bits = 0;
  for (int64_t i = 0; i < k; i += 2 * kLanes) {
    amax_bits = larger_bits(amax_bits, largest_magnitude_bits(load_up_to(x, i, k), load_up_to(x, i + kLanes, k)));
  }
  const int64_t padded = num_channel_groups(k) * kChannelGroup;
  const bool finite = amax_bits < 0x7f800000u;
  if (!finite || amax_bits < kQuantize16ZeroBits) {
    for (int64_t i = 0; i < padded; i += kLanes) store_int16_pairs(q + i, round_to_int(broadcast(0.0f)));
    *scale = 0.0f;
    return finite;
  }
  const float amax = __builtin_bit_cast(float, amax_bits);
  const Lanes inverse = broadcast(2047.0f / amax);
  for (int64_t i = 0; i < padded; i += kLanes) {
    store_int16_pairs(q + i, round_to_int(mul(load_up_to(x, i, k), inverse)));
  }
  *scale = amax / 2047.0f;
  return true;
}

}  // namespace
}  // namespace lockstep::kernels
