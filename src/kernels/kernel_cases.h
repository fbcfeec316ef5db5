// SPDX-License-Identifier: Apache-2.0
// Random inputs for comparing tables: used by the self-check at start and by the tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/table.h"

namespace lockstep::kernels {

/// Deterministic values; `salt` picks another stream.
class CaseValues {
 public:
  explicit CaseValues(uint32_t salt) : salt_(salt) {}
  uint32_t word();
  float uniform(float low, float high);
  std::vector<float> floats(int64_t count, float low, float high);

 private:
  uint32_t salt_;
  uint32_t counter_ = 0;
};

/// A matmul with everything it needs. Packed weights hold random finite values, zeros past n and k.
struct MatmulCase {
  MatmulCase(WeightFormat format, int64_t m, int64_t n, int64_t k, uint32_t salt);
  /// Runs it; the result has 16 canaries (kCanary) after each row.
  std::vector<float> run(MatmulFn function) const;
  int64_t out_stride() const { return n + 16; }

  WeightFormat format;
  int64_t m, n, k;
  std::vector<std::byte> weights;
  std::vector<float> x;
  std::vector<int8_t> xq;      ///< empty for int16 activations
  std::vector<int16_t> xq16;   ///< empty for others
  std::vector<uint16_t> xb16;  ///< the same, bf16 activations
  std::vector<float> x_scale;
  std::vector<int32_t> x_sum;
  int64_t xq_stride = 0, group_stride = 0;
};

/// Query rows against a segment; slots past the longest length hold NaN.
struct AttendCase {
  AttendCase(KvDType dtype, int64_t dim, std::vector<int32_t> lengths, uint32_t salt);
  struct Result {
    std::vector<float> max, sum, acc;
  };
  Result run(AttendFn function) const;

  KvDType dtype;
  int64_t dim;
  std::vector<int32_t> lengths;
  std::vector<float> q;
  std::vector<std::vector<std::byte>> k_tiles, v_tiles;
};

inline constexpr float kCanary = -12345.75f;

/// Equal in bits; any NaN equals any NaN.
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace lockstep::kernels
