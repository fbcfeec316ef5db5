// SPDX-License-Identifier: Apache-2.0
// Sizes of stored rows and blocks, and where their f16 scales lie (ggml-common.h).
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/pack_blocks.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kSuperBlock = 256;

uint16_t half_at(const std::byte* from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return bits;
}

}  // namespace

bool has_block_layout(SourceType source) { return source >= SourceType::kQ5_0 && source <= SourceType::kIQ4_XS; }

WeightFormat block_format(SourceType source) {
  const int index = static_cast<int>(source) - static_cast<int>(SourceType::kQ5_0);
  return static_cast<WeightFormat>(static_cast<int>(WeightFormat::kQ5_0) + index);
}

int64_t block_elements(SourceType source) {
  switch (source) {
    case SourceType::kQ5_0:
    case SourceType::kQ5_1:
    case SourceType::kIQ4_NL:
      return kGroup;
    default:
      return kSuperBlock;
  }
}

int64_t block_bytes(SourceType source) {
  switch (source) {
    case SourceType::kQ5_0:
      return 22;
    case SourceType::kQ5_1:
      return 24;
    case SourceType::kQ2_K:
      return 84;
    case SourceType::kQ3_K:
      return 110;
    case SourceType::kQ4_K:
      return 144;
    case SourceType::kQ5_K:
      return 176;
    case SourceType::kQ6_K:
      return 210;
    case SourceType::kIQ4_NL:
      return 18;
    case SourceType::kIQ4_XS:
      return 136;
    default:
      LOCKSTEP_CHECK(false);
      return 0;
  }
}

ScaleOffsets scale_offsets(SourceType source) {
  switch (source) {
    case SourceType::kQ4_1:
    case SourceType::kQ5_1:
    case SourceType::kQ4_K:
    case SourceType::kQ5_K:
      return {0, 2};
    case SourceType::kQ2_K:
      return {80, 82};
    case SourceType::kQ3_K:
      return {108, 108};
    case SourceType::kQ6_K:
      return {208, 208};
    default:
      return {0, 0};
  }
}

int64_t source_block_elements(SourceType source) {
  switch (source) {
    case SourceType::kF32:
    case SourceType::kF16:
    case SourceType::kBF16:
    case SourceType::kI8Channel:
      return 1;
    case SourceType::kQ8_0:
    case SourceType::kQ4_0:
    case SourceType::kQ4_1:
      return kGroup;
    default:
      return block_elements(source);
  }
}

int64_t source_row_bytes(SourceType source, int64_t k) {
  switch (source) {
    case SourceType::kF32:
      return k * 4;
    case SourceType::kF16:
    case SourceType::kBF16:
      return k * 2;
    case SourceType::kQ8_0:
      return k / kGroup * 34;
    case SourceType::kQ4_0:
      return k / kGroup * 18;
    case SourceType::kQ4_1:
      return k / kGroup * 20;
    case SourceType::kI8Channel:
      return 4 + k;
    default:
      return k / block_elements(source) * block_bytes(source);
  }
}

bool has_finite_scales(SourceType source, const std::byte* row, int64_t k) {
  if (source == SourceType::kI8Channel) {
    float scale;
    std::memcpy(&scale, row, sizeof scale);
    return std::isfinite(scale);
  }
  const int64_t elements = source_block_elements(source);
  if (elements == 1) return true;
  const ScaleOffsets at = scale_offsets(source);
  const int64_t bytes = source_row_bytes(source, elements);
  bool finite = true;
  for (int64_t i = 0; i < k / elements; ++i, row += bytes) {
    for (const int64_t offset : {at.d, at.m}) finite &= (half_at(row + offset) & 0x7c00) != 0x7c00;
  }
  return finite;
}

}  // namespace lockstep::kernels
