// SPDX-License-Identifier: Apache-2.0
#include "tensor/dtype.h"

#include <array>

#include "base/check.h"

namespace lockstep {

const DTypeInfo& dtype_info(DType dtype) {
  static constexpr std::array<DTypeInfo, 23> kInfo = {{
      {"f32", 1, 4},        {"f16", 1, 2},        {"bf16", 1, 2},          {"i8", 1, 1},       {"u8", 1, 1},
      {"i32", 1, 4},        {"i64", 1, 8},        {"f8_e4m3", 1, 1},       {"bool", 1, 1},     {"q4_0", 32, 18},
      {"q4_1", 32, 20},     {"q5_0", 32, 22},     {"q5_1", 32, 24},        {"q8_0", 32, 34},   {"q2_k", 256, 84},
      {"q3_k", 256, 110},   {"q4_k", 256, 144},   {"q5_k", 256, 176},      {"q6_k", 256, 210}, {"iq4_nl", 32, 18},
      {"iq4_xs", 256, 136}, {"i8_channel", 1, 1}, {"i8_channel_a8", 1, 1},
  }};
  const auto index = static_cast<size_t>(dtype);
  LOCKSTEP_CHECK(index < kInfo.size());
  return kInfo[index];
}

std::optional<int64_t> dtype_bytes(DType dtype, int64_t elements) {
  const DTypeInfo& info = dtype_info(dtype);
  if (elements < 0 || elements % info.block_elements != 0) return std::nullopt;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / info.block_elements, info.block_bytes, &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace lockstep
