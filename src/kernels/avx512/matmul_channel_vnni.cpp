// SPDX-License-Identifier: Apache-2.0
// One weight scale per output channel with VNNI, plain (not saturating) forms: vpdpwssd for w8a16; vpdpbusd for w8a8,
// whose weights are made unsigned (+128, by flipping the sign bit) while the sum starts at -128 times the sum of the
// activations: exact.
#include "kernels/simd/lanes_avx512.h"
// The lanes come first.
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/avx512/channel_ops.h"
#include "kernels/simd/fill.h"

namespace lockstep::kernels {
namespace {

struct VnniInt {
  using Weights = __m512i;
  static LOCKSTEP_INLINE __m512i add_pairs(__m512i sum, __m512i w, __m512i x) { return _mm512_dpwssd_epi32(sum, w, x); }
  static LOCKSTEP_INLINE Weights weights(__m512i bytes) { return _mm512_xor_si512(bytes, _mm512_set1_epi8(-128)); }
  static LOCKSTEP_INLINE int32_t start(int32_t x_sum) { return -128 * x_sum; }
  static LOCKSTEP_INLINE __m512i add_quads(__m512i sum, Weights w, __m512i x) { return _mm512_dpbusd_epi32(sum, w, x); }
};

}  // namespace

namespace LOCKSTEP_AVX512_NAMESPACE {

void add_channel_matmul_vnni(KernelTable* table) {
  set_matmul(table, WeightFormat::kW8A16, matmul_channel<W8A16Ops<VnniInt>>);
  set_matmul(table, WeightFormat::kW8A8, matmul_channel<W8A8Ops<VnniInt>>);
}

}  // namespace LOCKSTEP_AVX512_NAMESPACE
}  // namespace lockstep::kernels
