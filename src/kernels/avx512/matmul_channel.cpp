// SPDX-License-Identifier: Apache-2.0
// One weight scale per output channel on AVX-512 BW without VNNI: the routes of avx2/matmul_channel.cpp.
#include "kernels/simd/lanes_avx512.h"
// The lanes come first.
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/avx512/channel_ops.h"
#include "kernels/simd/fill.h"

namespace lockstep::kernels {
namespace {

struct PlainInt {
  struct Weights {
    __m512i magnitude;
    __mmask64 negative;
  };
  static LOCKSTEP_INLINE __m512i add_pairs(__m512i sum, __m512i w, __m512i x) {
    return _mm512_add_epi32(sum, _mm512_madd_epi16(w, x));
  }
  static LOCKSTEP_INLINE Weights weights(__m512i bytes) { return {_mm512_abs_epi8(bytes), _mm512_movepi8_mask(bytes)}; }
  static LOCKSTEP_INLINE int32_t start(int32_t) { return 0; }
  /// |w| times x with w's sign: at most 2 * 128 * 127 a pair, so vpmaddubsw cannot saturate.
  static LOCKSTEP_INLINE __m512i add_quads(__m512i sum, const Weights& w, __m512i x) {
    const __m512i value = _mm512_mask_sub_epi8(x, w.negative, _mm512_setzero_si512(), x);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(w.magnitude, value), _mm512_set1_epi16(1)));
  }
};

}  // namespace

namespace LOCKSTEP_AVX512_NAMESPACE {

void add_channel_matmul(KernelTable* table) {
  set_matmul(table, WeightFormat::kW8A16, matmul_channel<W8A16Ops<PlainInt>>);
  set_matmul(table, WeightFormat::kW8A8, matmul_channel<W8A8Ops<PlainInt>>);
}

}  // namespace LOCKSTEP_AVX512_NAMESPACE
}  // namespace lockstep::kernels
