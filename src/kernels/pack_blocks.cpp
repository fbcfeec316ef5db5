// SPDX-License-Identifier: Apache-2.0
#include "kernels/pack_blocks.h"

#include <cstring>

#include "base/check.h"
#include "base/half.h"
#include "kernels/block_layout.h"

namespace lockstep::kernels {
namespace {

/// A group of 32 as stored, scales still apart.
struct Codes {
  uint8_t code[kGroup];
  int32_t scale[2] = {1, 1};  ///< by sub-block
  int32_t min[2] = {1, 1};
  uint16_t d = 0;  ///< f16 bits
  uint16_t m = 0;
};

uint16_t read_u16(const uint8_t* in) { return static_cast<uint16_t>(in[0] | (in[1] << 8)); }
uint16_t negated(uint16_t f16) { return static_cast<uint16_t>(f16 ^ 0x8000); }

/// The last low bits in the two halves of 16 bytes, as Q4_0's.
void read_nibbles(const uint8_t* in, uint8_t* code) {
  for (int i = 0; i < 16; ++i) {
    code[i] = in[i] & 15;
    code[i + 16] = in[i] >> 4;
  }
}
/// Half `half` (0: low) of 32 bytes.
void read_halves(const uint8_t* in, int64_t half, uint8_t* code) {
  for (int i = 0; i < 32; ++i) code[i] = (in[i] >> (half * 4)) & 15;
}
void add_fifth_bits(const uint8_t* bits, uint8_t* code) {
  for (int i = 0; i < 32; ++i) code[i] |= static_cast<uint8_t>((bits[i / 8] >> (i % 8) & 1) << 4);
}

void read_q5(const uint8_t* in, bool has_min, Codes* out) {
  out->d = read_u16(in);
  if (has_min) out->m = read_u16(in + 2);
  in += has_min ? 4 : 2;
  read_nibbles(in + 4, out->code);
  add_fifth_bits(in, out->code);
}
void read_iq4_nl(const uint8_t* in, Codes* out) {
  out->d = read_u16(in);
  read_nibbles(in + 2, out->code);
}

/// 2-bit codes of group g: 64 bytes hold elements 128 h + 32 s + l in byte 32 h + l at bit 2 s.
void read_pairs(const uint8_t* in, int64_t g, uint8_t* code) {
  for (int i = 0; i < 32; ++i) code[i] = in[g / 4 * 32 + i] >> (g % 4 * 2) & 3;
}

void read_q2_k(const uint8_t* in, int64_t g, Codes* out) {
  read_pairs(in + 16, g, out->code);
  for (int s = 0; s < 2; ++s) {
    out->scale[s] = in[2 * g + s] & 15;
    out->min[s] = in[2 * g + s] >> 4;
  }
  out->d = read_u16(in + 80);
  out->m = negated(read_u16(in + 82));
}
void read_q3_k(const uint8_t* in, int64_t g, Codes* out) {
  read_pairs(in + 32, g, out->code);
  for (int i = 0; i < 32; ++i) out->code[i] |= static_cast<uint8_t>((in[i] >> g & 1) << 2);
  const uint8_t* scales = in + 96;
  for (int s = 0; s < 2; ++s) {
    const int64_t sub = 2 * g + s;
    const int low = scales[sub % 8] >> (sub / 8 * 4) & 15;
    const int high = scales[8 + sub % 4] >> (sub / 4 * 2) & 3;
    out->scale[s] = (low | high << 4) - 32;
  }
  out->d = read_u16(in + 108);
}
/// The 12 bytes with eight 6-bit scales and minimums of Q4_K and Q5_K.
void read_scale_min(const uint8_t* in, int64_t g, Codes* out) {
  if (g < 4) {
    out->scale[0] = in[g] & 63;
    out->min[0] = in[g + 4] & 63;
  } else {
    out->scale[0] = (in[g + 4] & 15) | (in[g - 4] >> 6) << 4;
    out->min[0] = (in[g + 4] >> 4) | (in[g] >> 6) << 4;
  }
}
void read_q4_k(const uint8_t* in, int64_t g, Codes* out) {
  read_halves(in + 16 + g / 2 * 32, g % 2, out->code);
  read_scale_min(in + 4, g, out);
  out->d = read_u16(in);
  out->m = negated(read_u16(in + 2));
}
void read_q5_k(const uint8_t* in, int64_t g, Codes* out) {
  read_halves(in + 48 + g / 2 * 32, g % 2, out->code);
  for (int i = 0; i < 32; ++i) out->code[i] |= static_cast<uint8_t>((in[16 + i] >> g & 1) << 4);
  read_scale_min(in + 4, g, out);
  out->d = read_u16(in);
  out->m = negated(read_u16(in + 2));
}
void read_q6_k(const uint8_t* in, int64_t g, Codes* out) {
  // 64 bytes of nibbles a half of the block: elements 128 h + l and 128 h + 64 + l.
  read_halves(in + g / 4 * 64 + g % 2 * 32, g % 4 / 2, out->code);
  uint8_t high[32];
  read_pairs(in + 128, g, high);
  for (int i = 0; i < 32; ++i) out->code[i] |= static_cast<uint8_t>(high[i] << 4);
  for (int s = 0; s < 2; ++s) out->scale[s] = static_cast<int8_t>(in[192 + 2 * g + s]);
  out->d = read_u16(in + 208);
}
void read_iq4_xs(const uint8_t* in, int64_t g, Codes* out) {
  read_nibbles(in + 8 + g * 16, out->code);
  const int low = in[4 + g / 2] >> (g % 2 * 4) & 15;
  out->scale[0] = (low | (read_u16(in + 2) >> (2 * g) & 3) << 4) - 32;
  out->d = read_u16(in);
}

Codes read_group(SourceType source, const std::byte* row, int64_t g) {
  Codes out;
  const int64_t unit_groups = block_elements(source) / kGroup;
  const auto* in = reinterpret_cast<const uint8_t*>(row) + g / unit_groups * block_bytes(source);
  const int64_t in_block = g % unit_groups;
  switch (source) {
    case SourceType::kQ5_0:
    case SourceType::kQ5_1:
      read_q5(in, source == SourceType::kQ5_1, &out);
      break;
    case SourceType::kQ2_K:
      read_q2_k(in, in_block, &out);
      break;
    case SourceType::kQ3_K:
      read_q3_k(in, in_block, &out);
      break;
    case SourceType::kQ4_K:
      read_q4_k(in, in_block, &out);
      break;
    case SourceType::kQ5_K:
      read_q5_k(in, in_block, &out);
      break;
    case SourceType::kQ6_K:
      read_q6_k(in, in_block, &out);
      break;
    case SourceType::kIQ4_NL:
      read_iq4_nl(in, &out);
      break;
    case SourceType::kIQ4_XS:
      read_iq4_xs(in, in_block, &out);
      break;
    default:
      LOCKSTEP_CHECK(false);
  }
  return out;
}

void values_of(const BlockLayout& layout, const Codes& codes, float* out) {
  const int sub_length = static_cast<int>(kGroup) / layout.sub_blocks;
  for (int i = 0; i < kGroup; ++i) {
    const int s = i / sub_length;
    const float d = f16_to_f32(codes.d) * static_cast<float>(codes.scale[s]);
    const int value = layout.is_iq4 ? kIq4Values[codes.code[i]] : codes.code[i] - layout.zero;
    const float scaled = d * static_cast<float>(value);
    out[i] = layout.has_min ? scaled + f16_to_f32(codes.m) * static_cast<float>(codes.min[s]) : scaled;
  }
}

/// Puts kBits bits of the codes, from bit `first` on, into a plane.
template <int kBits>
void store_plane(const uint8_t* code, int first, int64_t column, std::byte* plane) {
  constexpr uint32_t kMask = ((1u << kBits) - 1u) * 0x01010101u;
  uint32_t words[8];
  std::memcpy(words, code, sizeof words);
  for (int row = 0; row < kBits; ++row) {
    uint32_t word = 0;
    for (int t = 0; t < 8 / kBits; ++t) word |= (words[row + kBits * t] >> first & kMask) << (kBits * t);
    std::memcpy(plane + (row * kPanelColumns + column) * 4, &word, 4);
  }
}
void store_plane(const uint8_t* code, int first, int bits, int64_t column, std::byte* plane) {
  if (bits == 4) return store_plane<4>(code, first, column, plane);
  return bits == 2 ? store_plane<2>(code, first, column, plane) : store_plane<1>(code, first, column, plane);
}
void load_plane(const std::byte* plane, int first, int bits, int64_t column, uint8_t* code) {
  for (int i = 0; i < kGroup; ++i) {
    const int word = i / 4;
    const auto byte = static_cast<uint8_t>(plane[(word % bits * kPanelColumns + column) * 4 + i % 4]);
    code[i] |= static_cast<uint8_t>((byte >> (word / bits * bits) & ((1 << bits) - 1)) << first);
  }
}

}  // namespace

void dequantize_block_group(SourceType source, const std::byte* row, int64_t g, float* out) {
  values_of(block_layout(block_format(source)), read_group(source, row, g), out);
}

void pack_block_panel(SourceType source, const std::byte* const* rows, int64_t count, int64_t k, std::byte* out) {
  const BlockLayout layout = block_layout(block_format(source));
  const UnitBytes at = unit_bytes(layout);
  for (int64_t g = 0; g < num_groups(k); ++g) {
    std::byte* unit = out + g / layout.unit_groups * at.unit;
    const int64_t in_unit = g % layout.unit_groups;
    std::byte* planes = unit + in_unit * at.group;
    for (int64_t column = 0; column < count; ++column) {
      if (rows[column] == nullptr) continue;
      const Codes codes = read_group(source, rows[column], g);
      store_plane(codes.code, 0, layout.low_bits, column, planes);
      if (layout.high_bits > 0) {
        store_plane(codes.code, layout.low_bits, layout.high_bits, column,
                    planes + layout.low_bits * kPanelColumns * 4);
      }
      for (int64_t s = 0; layout.scales != BlockScales::kNone && s < layout.sub_blocks; ++s) {
        const int64_t index = (in_unit * layout.sub_blocks + s) * kPanelColumns + column;
        const bool nibbles = layout.scales == BlockScales::kNibbles;
        unit[at.scales + index] = static_cast<std::byte>(codes.scale[s] | (nibbles ? codes.min[s] << 4 : 0));
        if (layout.scales == BlockScales::kU8) unit[at.mins + index] = static_cast<std::byte>(codes.min[s]);
      }
      if (in_unit != 0) continue;
      std::memcpy(unit + at.d + 2 * column, &codes.d, 2);
      if (layout.has_min) std::memcpy(unit + at.d + 2 * (kPanelColumns + column), &codes.m, 2);
    }
  }
}

void unpack_block_group(WeightFormat format, const std::byte* panel, int64_t g, int64_t column, float* out) {
  const BlockLayout layout = block_layout(format);
  const UnitBytes at = unit_bytes(layout);
  const std::byte* unit = panel + g / layout.unit_groups * at.unit;
  const int64_t in_unit = g % layout.unit_groups;
  const std::byte* planes = unit + in_unit * at.group;
  Codes codes;
  std::memset(codes.code, 0, sizeof codes.code);
  load_plane(planes, 0, layout.low_bits, column, codes.code);
  if (layout.high_bits > 0) {
    load_plane(planes + layout.low_bits * kPanelColumns * 4, layout.low_bits, layout.high_bits, column, codes.code);
  }
  for (int64_t s = 0; layout.scales != BlockScales::kNone && s < layout.sub_blocks; ++s) {
    const int64_t index = (in_unit * layout.sub_blocks + s) * kPanelColumns + column;
    const auto byte = static_cast<uint8_t>(unit[at.scales + index]);
    const bool nibbles = layout.scales == BlockScales::kNibbles;
    codes.scale[s] = layout.scales == BlockScales::kI8 ? static_cast<int8_t>(byte) : (nibbles ? byte & 15 : byte);
    codes.min[s] = nibbles ? byte >> 4 : static_cast<uint8_t>(unit[at.mins + index]);
  }
  std::memcpy(&codes.d, unit + at.d + 2 * column, 2);
  if (layout.has_min) std::memcpy(&codes.m, unit + at.d + 2 * (kPanelColumns + column), 2);
  values_of(layout, codes, out);
}

}  // namespace lockstep::kernels
