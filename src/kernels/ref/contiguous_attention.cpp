// SPDX-License-Identifier: Apache-2.0
// Attention over one segment whose K and V lie in rows: the definition.
#include "kernels/ref/ref_kernels.h"
#include "kernels/ref/scalar.h"

namespace lockstep::kernels {
namespace {

float widen(float x) { return x; }
float widen(uint16_t x) { return from_bf16(x); }

template <class Word>
void attend_row(const AttendContiguousArgs& args, int64_t row) {
  const AttendArgs& a = args.segment;
  const auto* k = static_cast<const Word*>(args.k);
  const auto* v = static_cast<const Word*>(args.v);
  const float* q = a.q + row * a.q_stride;
  const int64_t length = a.lengths[row];
  float* e = a.scratch + row * kSegmentPositions;
  float largest = float_of(0xff800000u);
  for (int64_t p = 0; p < length; ++p) {
    float score = 0.0f;
    for (int64_t d = 0; d < a.dim; ++d) score = fma_f32(q[d], widen(k[p * a.dim + d]), score);
    e[p] = score;
    largest = score > largest ? score : largest;
  }
  largest += 0.0f;  // -0 becomes +0
  float lane[kLanes] = {};
  for (int64_t p = 0; p < length; ++p) {
    e[p] = exp_scalar(e[p] - largest);
    lane[p % kLanes] += e[p];
  }
  for (int64_t d = 0; d < a.dim; ++d) {
    float acc = 0.0f;
    for (int64_t p = 0; p < length; ++p) acc = fma_f32(e[p], widen(v[p * a.dim + d]), acc);
    a.out_acc[row * a.dim + d] = acc;
  }
  a.out_max[row] = largest;
  a.out_sum[row] = sum_tree16(lane);
}

}  // namespace

namespace ref {

void attend_contiguous_bf16(const AttendContiguousArgs& args) {
  for (int64_t row = 0; row < args.segment.rows; ++row) attend_row<uint16_t>(args, row);
}
void attend_contiguous_f32(const AttendContiguousArgs& args) {
  for (int64_t row = 0; row < args.segment.rows; ++row) attend_row<float>(args, row);
}

}  // namespace ref
}  // namespace lockstep::kernels
