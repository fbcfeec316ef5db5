// SPDX-License-Identifier: Apache-2.0
// The formats that run GGUF's other block types as stored, described once for packing, reference and vectors.
//
// A weight is d * (code - zero), or d * code + m; IQ4's codes stand for the 16 values of kIq4Values. Groups of 32 hold
// one or two sub-blocks, each with a scale d (and m) of its own. K types pack eight groups to a unit: f16 d and m of
// the unit times an integer per sub-block, a product that f32 holds exactly (11 x 8 bits).
//
// A panel is a row of units. A unit: per group the planes of low_bits and of high_bits, then the integer scales (u8 or
// i8 [sub-block][16]), the integer minimums (likewise), f16 d [16], f16 m [16] (K types: minus the file's dmin).
// A plane of b bits has b rows of u8 [16][4]. Byte i of column c of row r holds the codes of elements 4 * (r + b * t) +
// i at bit b * t, t = 0 .. 8 / b - 1: a shift and a mask make a register of four consecutive elements a column.
#pragma once

#include <cstdint>

#include "kernels/packed.h"

namespace lockstep::kernels {

/// Integer scales of sub-blocks.
enum class BlockScales : uint8_t {
  kNone,     ///< d and m are the sub-block's own
  kI8,       ///< i8 scales
  kU8,       ///< u8 scales, u8 minimums
  kNibbles,  ///< u8: scale in the low half, minimum in the high half
};

struct BlockLayout {
  int low_bits;
  int high_bits;
  int sub_blocks;   ///< of a group of 32: 1, or 2 of 16 elements
  int unit_groups;  ///< groups that share d and m: 1 or 8
  BlockScales scales;
  bool has_min;
  int zero;     ///< the code of a weight 0
  bool is_iq4;  ///< codes stand for kIq4Values
};

/// Internal linkage: code of several instruction sets reads it.
constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

constexpr bool has_block_layout(WeightFormat format) {
  return format >= WeightFormat::kQ5_0 && format <= WeightFormat::kIQ4_XS;
}

/// Requires has_block_layout.
constexpr BlockLayout block_layout(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ5_0:
      return {4, 1, 1, 1, BlockScales::kNone, false, 16, false};
    case WeightFormat::kQ5_1:
      return {4, 1, 1, 1, BlockScales::kNone, true, 0, false};
    case WeightFormat::kQ2_K:
      return {2, 0, 2, 8, BlockScales::kNibbles, true, 0, false};
    case WeightFormat::kQ3_K:
      return {2, 1, 2, 8, BlockScales::kI8, false, 4, false};
    case WeightFormat::kQ4_K:
      return {4, 0, 1, 8, BlockScales::kU8, true, 0, false};
    case WeightFormat::kQ5_K:
      return {4, 1, 1, 8, BlockScales::kU8, true, 0, false};
    case WeightFormat::kQ6_K:
      return {4, 2, 2, 8, BlockScales::kI8, false, 32, false};
    case WeightFormat::kIQ4_NL:
      return {4, 0, 1, 1, BlockScales::kNone, false, 0, true};
    default:  // kIQ4_XS
      return {4, 0, 1, 8, BlockScales::kI8, false, 0, true};
  }
}

/// Offsets in a unit, in bytes.
struct UnitBytes {
  int64_t group;   ///< of the planes of a group
  int64_t scales;  ///< where integer scales start
  int64_t mins;    ///< where integer minimums start
  int64_t d;       ///< where f16 d starts; m follows
  int64_t unit;    ///< of a whole unit, a multiple of 32
};
constexpr UnitBytes unit_bytes(const BlockLayout& l) {
  const int64_t group = (l.low_bits + l.high_bits) * kPanelColumns * 4;
  const int64_t scales = group * l.unit_groups;
  const int64_t plane = l.scales == BlockScales::kNone ? 0 : l.unit_groups * l.sub_blocks * kPanelColumns;
  const int64_t mins = scales + plane;
  const int64_t d = mins + (l.scales == BlockScales::kU8 ? plane : 0);
  return {group, scales, mins, d, d + (l.has_min ? 4 : 2) * kPanelColumns};
}

}  // namespace lockstep::kernels
