// SPDX-License-Identifier: Apache-2.0
#include "kernels/pack_quantize.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "kernels/table.h"

namespace lockstep::kernels {
namespace {

constexpr uint32_t kInfinityBits = 0x7f800000u;

/// To the nearest integer, ties to even, for |x| < 2^22: adding 1.5 * 2^23 leaves it in the low bits.
int32_t round_to_int(float x) {
  return static_cast<int32_t>(std::bit_cast<uint32_t>(x + 0x1.8p+23f) - std::bit_cast<uint32_t>(0x1.8p+23f));
}

uint32_t largest_magnitude_bits(const float* x, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  return largest;
}

/// Calls part(first, count, values) for each 32 elements of a row.
template <class Part>
void for_each_part(SourceType source, const std::byte* row, int64_t k, Part part) {
  float values[kGroup];
  for (int64_t first = 0; first < k; first += kGroup) {
    const int64_t count = std::min(kGroup, k - first);
    dequantize_part(source, row, first, count, values);
    part(first, count, static_cast<const float*>(values));
  }
}

/// Element k of a column of quads.
std::byte& quad_byte(std::byte* panel, int64_t k, int64_t column) {
  return panel[(k / 4 * kPanelColumns + column) * 4 + k % 4];
}

void quantize_q4_1_group(const float* x, int64_t count, int64_t column, std::byte* group) {
  const uint32_t amax_bits = largest_magnitude_bits(x, count);
  const auto [low, high] = std::minmax_element(x, x + count);
  const bool finite = amax_bits < kInfinityBits;
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  const uint16_t d = f32_to_f16(finite ? (*high - *low) / 15.0f : kNaN);
  const uint16_t m = f32_to_f16(finite ? *low : kNaN);
  std::byte* scales = group + kGroup / 2 * kPanelColumns;
  std::memcpy(scales + 2 * column, &d, 2);
  std::memcpy(scales + 2 * (kPanelColumns + column), &m, 2);
  const float step = f16_to_f32(d);
  if (!finite || step == 0.0f || std::bit_cast<uint32_t>(step) >= kInfinityBits) return;
  const float inverse = 1.0f / step;
  const float start = f16_to_f32(m);
  for (int64_t i = 0; i < count; ++i) {
    const float scaled = std::clamp((x[i] - start) * inverse, 0.0f, 15.0f);
    const int64_t half = i / (kGroup / 2);
    quad_byte(group, i % (kGroup / 2), column) |= std::byte(static_cast<uint8_t>(round_to_int(scaled) << (4 * half)));
  }
}

}  // namespace

void quantize_channel_panel(SourceType source, const std::byte* const* rows, int64_t count, int64_t k, std::byte* out) {
  for (int64_t column = 0; column < count; ++column) {
    if (rows[column] == nullptr) continue;
    uint32_t amax_bits = 0;
    for_each_part(source, rows[column], k, [&](int64_t, int64_t length, const float* values) {
      amax_bits = std::max(amax_bits, largest_magnitude_bits(values, length));
    });
    const bool finite = amax_bits < kInfinityBits;
    const bool zero = !finite || amax_bits < kQuantizeZeroBits;
    const float amax = std::bit_cast<float>(amax_bits);
    const float scale = finite ? (zero ? 0.0f : amax / 127.0f) : std::numeric_limits<float>::quiet_NaN();
    std::memcpy(out + channel_quads(k) * kQuadBytes + 4 * column, &scale, 4);
    if (zero) continue;
    const float inverse = 127.0f / amax;
    for_each_part(source, rows[column], k, [&](int64_t first, int64_t length, const float* values) {
      for (int64_t i = 0; i < length; ++i) {
        quad_byte(out, first + i, column) = std::byte(static_cast<uint8_t>(round_to_int(values[i] * inverse)));
      }
    });
  }
}

void copy_channel_panel(const std::byte* const* rows, int64_t count, int64_t k, std::byte* out) {
  for (int64_t column = 0; column < count; ++column) {
    if (rows[column] == nullptr) continue;
    std::memcpy(out + channel_quads(k) * kQuadBytes + 4 * column, rows[column], 4);
    for (int64_t i = 0; i < k; ++i) quad_byte(out, i, column) = rows[column][4 + i];
  }
}

void unpack_channel_row(const std::byte* panel, int64_t k, int64_t column, float* out) {
  float scale;
  std::memcpy(&scale, panel + channel_quads(k) * kQuadBytes + 4 * column, 4);
  for (int64_t i = 0; i < k; ++i) {
    const auto q = static_cast<int8_t>(panel[(i / 4 * kPanelColumns + column) * 4 + i % 4]);
    out[i] = scale * static_cast<float>(q);
  }
}

void quantize_q4_1_panel(SourceType source, const std::byte* const* rows, int64_t count, int64_t k, std::byte* out) {
  for (int64_t column = 0; column < count; ++column) {
    if (rows[column] == nullptr) continue;
    for_each_part(source, rows[column], k, [&](int64_t first, int64_t length, const float* values) {
      quantize_q4_1_group(values, length, column, out + first / kGroup * kQ4_1GroupBytes);
    });
  }
}

}  // namespace lockstep::kernels
