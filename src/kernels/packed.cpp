// SPDX-License-Identifier: Apache-2.0
#include "kernels/packed.h"

#include "base/check.h"

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
  }
  return "unknown";
}

bool has_int8_activations(WeightFormat format) {
  return format == WeightFormat::kQ8G32 || format == WeightFormat::kQ4_0 || format == WeightFormat::kQ4_1;
}

int64_t panel_bytes(WeightFormat format, int64_t k) {
  switch (format) {
    case WeightFormat::kF32:
      return k * kPanelColumns * 4;
    case WeightFormat::kF16:
      return k * kPanelColumns * 2;
    case WeightFormat::kBF16:
      return (k + 1) / 2 * kPanelColumns * 4;
    case WeightFormat::kQ8G32:
      return num_groups(k) * kQ8GroupBytes;
    case WeightFormat::kQ4_0:
      return num_groups(k) * kQ4_0GroupBytes;
    case WeightFormat::kQ4_1:
      return num_groups(k) * kQ4_1GroupBytes;
  }
  LOCKSTEP_CHECK(false);
  return 0;
}

}  // namespace lockstep::kernels
