// SPDX-License-Identifier: Apache-2.0
#include "kernels/packed.h"

#include "base/check.h"
#include "kernels/block_layout.h"

namespace lockstep::kernels {

std::string_view to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return "f32";
    case WeightFormat::kF16:
      return "f16";
    case WeightFormat::kBF16:
      return "bf16";
    case WeightFormat::kQ8G32:
      return "w8g32";
    case WeightFormat::kQ4_0:
      return "q4_0";
    case WeightFormat::kQ4_1:
      return "q4_1";
    case WeightFormat::kQ5_0:
      return "q5_0";
    case WeightFormat::kQ5_1:
      return "q5_1";
    case WeightFormat::kQ2_K:
      return "q2_k";
    case WeightFormat::kQ3_K:
      return "q3_k";
    case WeightFormat::kQ4_K:
      return "q4_k";
    case WeightFormat::kQ5_K:
      return "q5_k";
    case WeightFormat::kQ6_K:
      return "q6_k";
    case WeightFormat::kIQ4_NL:
      return "iq4_nl";
    case WeightFormat::kIQ4_XS:
      return "iq4_xs";
    case WeightFormat::kW8A16:
      return "w8a16";
    case WeightFormat::kW8A8:
      return "w8a8";
    case WeightFormat::kBF16Dot:
      return "bf16dot";
  }
  return "unknown";
}

Activations activations_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      return Activations::kF32;
    case WeightFormat::kW8A16:
      return Activations::kInt16;
    case WeightFormat::kW8A8:
      return Activations::kInt8G64;
    case WeightFormat::kBF16Dot:
      return Activations::kBF16;
    default:
      return Activations::kInt8G32;
  }
}

bool has_rounded_activations(WeightFormat format) { return activations_of(format) != Activations::kF32; }

int64_t panel_bytes(WeightFormat format, int64_t k) {
  switch (format) {
    case WeightFormat::kF32:
      return k * kPanelColumns * 4;
    case WeightFormat::kF16:
      return k * kPanelColumns * 2;
    case WeightFormat::kBF16:
    case WeightFormat::kBF16Dot:
      return bf16_pairs(k) * kPanelColumns * 4;
    case WeightFormat::kQ8G32:
      return num_groups(k) * kQ8GroupBytes;
    case WeightFormat::kQ4_0:
      return num_groups(k) * kQ4_0GroupBytes;
    case WeightFormat::kQ4_1:
      return num_groups(k) * kQ4_1GroupBytes;
    case WeightFormat::kW8A16:
    case WeightFormat::kW8A8:
      return channel_panel_bytes(k);
    default:
      break;
  }
  if (has_block_layout(format)) {
    const BlockLayout layout = block_layout(format);
    return (num_groups(k) + layout.unit_groups - 1) / layout.unit_groups * unit_bytes(layout).unit;
  }
  LOCKSTEP_CHECK(false);
  return 0;
}

}  // namespace lockstep::kernels
