// SPDX-License-Identifier: Apache-2.0
#include "kernels/pack.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "kernels/block_layout.h"
#include "kernels/pack_blocks.h"
#include "kernels/pack_quantize.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kHalfGroup = kGroup / 2;
constexpr int64_t kQ8_0BlockBytes = 2 + kGroup;
constexpr int64_t kQ4_0BlockBytes = 2 + kHalfGroup;
constexpr int64_t kQ4_1BlockBytes = 4 + kHalfGroup;

template <class T>
T load(const std::byte* from, int64_t index = 0) {
  T value;
  std::memcpy(&value, from + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void store(std::byte* to, int64_t index, T value) {
  std::memcpy(to + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}
uint8_t byte_at(const std::byte* from, int64_t index) { return std::to_integer<uint8_t>(from[index]); }
int32_t low_nibble(uint8_t pair) { return pair & 15; }
int32_t high_nibble(uint8_t pair) { return pair >> 4; }

/// Where element i of a group of bytes [..][16][4] lies.
int64_t quad_index(int64_t i, int64_t column) { return (i / 4 * kPanelColumns + column) * 4 + i % 4; }

/// Up to 32 elements of a source row from `first`, a multiple of 32, as f32.
void dequantize_group(SourceType source, const std::byte* row, int64_t first, int64_t count, float* out) {
  switch (source) {
    case SourceType::kF32:
      std::memcpy(out, row + first * 4, static_cast<size_t>(count) * 4);
      return;
    case SourceType::kF16:
      for (int64_t i = 0; i < count; ++i) out[i] = f16_to_f32(load<uint16_t>(row, first + i));
      return;
    case SourceType::kBF16:
      for (int64_t i = 0; i < count; ++i) out[i] = bf16_to_f32(load<uint16_t>(row, first + i));
      return;
    case SourceType::kQ8_0: {
      const std::byte* block = row + first / kGroup * kQ8_0BlockBytes;
      const float d = f16_to_f32(load<uint16_t>(block));
      for (int64_t i = 0; i < kGroup; ++i) out[i] = d * static_cast<float>(load<int8_t>(block + 2, i));
      return;
    }
    case SourceType::kQ4_0: {
      const std::byte* block = row + first / kGroup * kQ4_0BlockBytes;
      const float d = f16_to_f32(load<uint16_t>(block));
      for (int64_t i = 0; i < kHalfGroup; ++i) {
        out[i] = d * static_cast<float>(low_nibble(byte_at(block, 2 + i)) - 8);
        out[i + kHalfGroup] = d * static_cast<float>(high_nibble(byte_at(block, 2 + i)) - 8);
      }
      return;
    }
    case SourceType::kQ4_1: {
      const std::byte* block = row + first / kGroup * kQ4_1BlockBytes;
      const float d = f16_to_f32(load<uint16_t>(block));
      const float m = f16_to_f32(load<uint16_t>(block, 1));
      for (int64_t i = 0; i < kHalfGroup; ++i) {
        out[i] = d * static_cast<float>(low_nibble(byte_at(block, 4 + i))) + m;
        out[i + kHalfGroup] = d * static_cast<float>(high_nibble(byte_at(block, 4 + i))) + m;
      }
      return;
    }
    case SourceType::kI8Channel: {
      const auto scale = load<float>(row);
      for (int64_t i = 0; i < count; ++i) out[i] = scale * static_cast<float>(load<int8_t>(row + 4, first + i));
      return;
    }
    default:
      return dequantize_block_group(source, row, first / kGroup, out);
  }
}

void store_float(WeightFormat format, std::byte* panel, int64_t k, int64_t column, float value) {
  switch (format) {
    case WeightFormat::kF32:
      store(panel, k * kPanelColumns + column, value);
      return;
    case WeightFormat::kF16:
      store(panel, k * kPanelColumns + column, f32_to_f16(value));
      return;
    default:
      store(panel, (k / 2 * kPanelColumns + column) * 2 + k % 2, f32_to_bf16(value));
      return;
  }
}

void pack_float_panel(WeightFormat format, SourceType source, const std::byte* const* rows, int64_t count, int64_t k,
                      std::byte* out) {
  float values[kGroup];
  for (int64_t first = 0; first < k; first += kGroup) {
    const int64_t length = std::min(kGroup, k - first);
    for (int64_t column = 0; column < count; ++column) {
      if (rows[column] == nullptr) continue;
      dequantize_group(source, rows[column], first, length, values);
      for (int64_t i = 0; i < length; ++i) store_float(format, out, first + i, column, values[i]);
    }
  }
}

/// The common case of large models: 16-bit words move as they are.
void pack_bf16_panel(const std::byte* const* rows, int64_t count, int64_t k, std::byte* out) {
  constexpr int64_t kBlock = 64;  // words of k: 16 rows x 128 bytes in, 2 KB out
  for (int64_t first = 0; first < k; first += kBlock) {
    const int64_t end = std::min(k, first + kBlock);
    for (int64_t column = 0; column < count; ++column) {
      const std::byte* row = rows[column];
      if (row == nullptr) continue;
      int64_t i = first;
      for (; i + 1 < end; i += 2) store(out, i / 2 * kPanelColumns + column, load<uint32_t>(row + i * 2));
      if (i < end) store(out, (i / 2 * kPanelColumns + column) * 2, load<uint16_t>(row, i));
    }
  }
}

void pack_q8_panel(const std::byte* const* rows, int64_t count, int64_t k, std::byte* out) {
  for (int64_t g = 0; g < num_groups(k); ++g, out += kQ8GroupBytes) {
    for (int64_t column = 0; column < count; ++column) {
      if (rows[column] == nullptr) continue;
      const std::byte* block = rows[column] + g * kQ8_0BlockBytes;
      for (int64_t i = 0; i < kGroup; i += 4) store(out, quad_index(i, column) / 4, load<uint32_t>(block + 2 + i));
      store(out + kGroup * kPanelColumns, column, load<uint16_t>(block));
    }
  }
}

/// Q4_0 (one scale) and Q4_1 (two): the nibble bytes keep their pairing, four bytes of a row become one word of its
/// column.
void pack_q4_panel(const std::byte* const* rows, int64_t count, int64_t k, int64_t num_scales, std::byte* out) {
  const int64_t block_bytes = 2 * num_scales + kHalfGroup;
  const int64_t group_bytes = num_scales == 1 ? kQ4_0GroupBytes : kQ4_1GroupBytes;
  for (int64_t g = 0; g < num_groups(k); ++g, out += group_bytes) {
    std::byte* scales = out + kHalfGroup * kPanelColumns;
    for (int64_t column = 0; column < count; ++column) {
      if (rows[column] == nullptr) continue;
      const std::byte* block = rows[column] + g * block_bytes;
      const std::byte* nibbles = block + 2 * num_scales;
      for (int64_t i = 0; i < kHalfGroup; i += 4) store(out, quad_index(i, column) / 4, load<uint32_t>(nibbles + i));
      for (int64_t s = 0; s < num_scales; ++s) store(scales, s * kPanelColumns + column, load<uint16_t>(block, s));
    }
  }
}

void unpack_group(WeightFormat format, const std::byte* group, int64_t column, float* out) {
  const std::byte* scales = group + (format == WeightFormat::kQ8G32 ? kGroup : kHalfGroup) * kPanelColumns;
  const float d = f16_to_f32(load<uint16_t>(scales, column));
  if (format == WeightFormat::kQ8G32) {
    for (int64_t i = 0; i < kGroup; ++i) out[i] = d * static_cast<float>(load<int8_t>(group, quad_index(i, column)));
    return;
  }
  const int32_t offset = format == WeightFormat::kQ4_0 ? 8 : 0;
  const bool has_min = format == WeightFormat::kQ4_1;
  const float m = has_min ? f16_to_f32(load<uint16_t>(scales, kPanelColumns + column)) : 0.0f;
  for (int64_t i = 0; i < kHalfGroup; ++i) {
    const uint8_t pair = byte_at(group, quad_index(i, column));
    const float low = d * static_cast<float>(low_nibble(pair) - offset);
    const float high = d * static_cast<float>(high_nibble(pair) - offset);
    out[i] = has_min ? low + m : low;
    out[i + kHalfGroup] = has_min ? high + m : high;
  }
}

}  // namespace

void dequantize_part(SourceType source, const std::byte* row, int64_t first, int64_t count, float* out) {
  dequantize_group(source, row, first, count, out);
}

bool can_pack(WeightFormat format, SourceType source) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
    case WeightFormat::kBF16Dot:
      return true;
    case WeightFormat::kQ8G32:
      return source == SourceType::kQ8_0;
    case WeightFormat::kQ4_0:
      return source == SourceType::kQ4_0;
    case WeightFormat::kQ4_1:
      return source == SourceType::kQ4_1 || source <= SourceType::kBF16;
    case WeightFormat::kW8A16:
    case WeightFormat::kW8A8:
      return true;
    default:
      return has_block_layout(source) && block_format(source) == format;
  }
}

void pack_panel(WeightFormat format, SourceType source, const std::byte* const* rows, int64_t count, int64_t k,
                std::byte* out) {
  LOCKSTEP_CHECK(can_pack(format, source) && count >= 1 && count <= kPanelColumns && k >= 1);
  LOCKSTEP_CHECK(k % source_block_elements(source) == 0);
  const bool all = std::all_of(rows, rows + count, [](const std::byte* row) { return row != nullptr; });
  if (!all || count < kPanelColumns || k % 2 != 0 || has_block_layout(format))
    std::memset(out, 0, static_cast<size_t>(panel_bytes(format, k)));
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
      return pack_float_panel(format, source, rows, count, k, out);
    case WeightFormat::kBF16:
    case WeightFormat::kBF16Dot:
      if (source == SourceType::kBF16) return pack_bf16_panel(rows, count, k, out);
      return pack_float_panel(format, source, rows, count, k, out);
    case WeightFormat::kQ8G32:
      return pack_q8_panel(rows, count, k, out);
    case WeightFormat::kQ4_0:
      return pack_q4_panel(rows, count, k, 1, out);
    case WeightFormat::kQ4_1:
      if (source == SourceType::kQ4_1) return pack_q4_panel(rows, count, k, 2, out);
      std::memset(out, 0, static_cast<size_t>(panel_bytes(format, k)));
      return quantize_q4_1_panel(source, rows, count, k, out);
    case WeightFormat::kW8A16:
    case WeightFormat::kW8A8:
      std::memset(out, 0, static_cast<size_t>(panel_bytes(format, k)));
      if (source == SourceType::kI8Channel) return copy_channel_panel(rows, count, k, out);
      return quantize_channel_panel(source, rows, count, k, out);
    default:
      return pack_block_panel(source, rows, count, k, out);
  }
}

void pack_matrix(WeightFormat format, SourceType source, const std::byte* first, int64_t row_stride, int64_t n,
                 int64_t k, std::byte* out) {
  const std::byte* rows[kPanelColumns];
  for (int64_t column = 0; column < n; column += kPanelColumns, out += panel_bytes(format, k)) {
    const int64_t count = std::min(kPanelColumns, n - column);
    for (int64_t i = 0; i < count; ++i) rows[i] = first + (column + i) * row_stride;
    pack_panel(format, source, rows, count, k, out);
  }
}

void dequantize_row(SourceType source, const std::byte* row, int64_t k, float* out) {
  LOCKSTEP_CHECK(k % source_block_elements(source) == 0);
  for (int64_t first = 0; first < k; first += kGroup) {
    dequantize_group(source, row, first, std::min(kGroup, k - first), out + first);
  }
}

void unpack_row(WeightFormat format, const std::byte* packed, int64_t k, int64_t row, float* out) {
  const std::byte* panel = packed + row / kPanelColumns * panel_bytes(format, k);
  const int64_t column = row % kPanelColumns;
  switch (format) {
    case WeightFormat::kF32:
      for (int64_t i = 0; i < k; ++i) out[i] = load<float>(panel, i * kPanelColumns + column);
      return;
    case WeightFormat::kF16:
      for (int64_t i = 0; i < k; ++i) out[i] = f16_to_f32(load<uint16_t>(panel, i * kPanelColumns + column));
      return;
    case WeightFormat::kBF16:
    case WeightFormat::kBF16Dot:
      for (int64_t i = 0; i < k; ++i)
        out[i] = bf16_to_f32(load<uint16_t>(panel, (i / 2 * kPanelColumns + column) * 2 + i % 2));
      return;
    case WeightFormat::kW8A16:
    case WeightFormat::kW8A8:
      return unpack_channel_row(panel, k, column, out);
    default:
      break;
  }
  const int64_t group_bytes = panel_bytes(format, kGroup);
  for (int64_t g = 0; g < num_groups(k); ++g) {
    float values[kGroup];
    if (has_block_layout(format)) {
      unpack_block_group(format, panel, g, column, values);
    } else {
      unpack_group(format, panel + g * group_bytes, column, values);
    }
    std::copy_n(values, std::min(kGroup, k - g * kGroup), out + g * kGroup);
  }
}

}  // namespace lockstep::kernels
