// SPDX-License-Identifier: Apache-2.0
// Attention over one segment and its merging: the definition.
#include <cstddef>

#include "kernels/ref/ref_kernels.h"
#include "kernels/ref/scalar.h"

namespace lockstep::kernels {
namespace {

struct F32Kv {
  using Word = float;
  static float load(float x) { return x; }
  static float store(float x) { return x; }
};
struct BF16Kv {
  using Word = uint16_t;
  static float load(uint16_t x) { return from_bf16(x); }
  static uint16_t store(float x) { return to_bf16(x); }
};

template <class Kv>
const typename Kv::Word* tile_of(const void* const* tiles, int64_t position) {
  return static_cast<const typename Kv::Word*>(tiles[position / kTileSlots]);
}

template <class Kv>
float scores(const AttendArgs& a, int64_t row, float* s) {
  const float* q = a.q + row * a.q_stride;
  float largest = float_of(0xff800000u);
  for (int64_t p = 0; p < a.lengths[row]; ++p) {
    const auto* k = tile_of<Kv>(a.k_tiles, p) + p % kTileSlots;
    float sum = 0.0f;
    for (int64_t d = 0; d < a.dim; ++d) sum = fma_f32(q[d], Kv::load(k[d * kTileSlots]), sum);
    s[p] = sum;
    largest = sum > largest ? sum : largest;
  }
  return largest + 0.0f;  // -0 becomes +0
}

template <class Kv>
void attend_row(const AttendArgs& a, int64_t row) {
  const int64_t length = a.lengths[row];
  float* e = a.scratch + row * kSegmentPositions;
  const float largest = scores<Kv>(a, row, e);
  float lane[kLanes] = {};
  for (int64_t p = 0; p < length; ++p) {
    e[p] = exp_scalar(e[p] - largest);
    lane[p % kLanes] += e[p];
  }
  for (int64_t d = 0; d < a.dim; ++d) {
    float acc = 0.0f;
    for (int64_t p = 0; p < length; ++p)
      acc = fma_f32(e[p], Kv::load(tile_of<Kv>(a.v_tiles, p)[p % kTileSlots * a.dim + d]), acc);
    a.out_acc[row * a.dim + d] = acc;
  }
  a.out_max[row] = largest;
  a.out_sum[row] = sum_tree16(lane);
}

template <class Kv>
void attend_segment(const AttendArgs& a) {
  for (int64_t row = 0; row < a.rows; ++row) attend_row<Kv>(a, row);
}

template <class Kv>
void store_kv(const float* k, const float* v, int64_t dim, void* k_tile, void* v_tile, int64_t slot) {
  auto* k_words = static_cast<typename Kv::Word*>(k_tile);
  auto* v_words = static_cast<typename Kv::Word*>(v_tile);
  for (int64_t d = 0; d < dim; ++d) {
    k_words[d * kTileSlots + slot] = Kv::store(k[d]);
    v_words[slot * dim + d] = Kv::store(v[d]);
  }
}

}  // namespace

namespace ref {

void attend_segment_bf16(const AttendArgs& args) { attend_segment<BF16Kv>(args); }
void attend_segment_f32(const AttendArgs& args) { attend_segment<F32Kv>(args); }

void store_kv_bf16(const float* k, const float* v, int64_t dim, void* k_tile, void* v_tile, int64_t slot) {
  store_kv<BF16Kv>(k, v, dim, k_tile, v_tile, slot);
}
void store_kv_f32(const float* k, const float* v, int64_t dim, void* k_tile, void* v_tile, int64_t slot) {
  store_kv<F32Kv>(k, v, dim, k_tile, v_tile, slot);
}

void merge_segment(float* m, float* l, float* acc, float m2, float l2, const float* acc2, int64_t dim) {
  const float largest = (*m > m2 ? *m : m2) + 0.0f;
  const float a = exp_scalar(*m - largest);
  const float b = exp_scalar(m2 - largest);
  for (int64_t d = 0; d < dim; ++d) acc[d] = fma_f32(acc[d], a, acc2[d] * b);
  *m = largest;
  *l = fma_f32(*l, a, l2 * b);
}

void finish_attention(const float* acc, float l, int64_t dim, float* out) {
  for (int64_t d = 0; d < dim; ++d) out[d] = acc[d] / l;
}

}  // namespace ref
}  // namespace lockstep::kernels
