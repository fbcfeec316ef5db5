// SPDX-License-Identifier: Apache-2.0
// bf16 dot products by AVX512_BF16's vdpbf16ps, which rounds, flushes and orders as table.h says.
#include "kernels/simd/lanes_avx512.h"
// The lanes come first.
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/simd/fill.h"
#include "kernels/simd/matmul_bf16dot.h"

namespace lockstep::kernels {
namespace {

struct NativeDot {
  using Pair = uint32_t;
  using Weights = __m512i;
  using Values = __m512i;
  static constexpr int kRows = 12, kPanels = 2, kWideRows = 6, kWidePanels = 4;
  static LOCKSTEP_INLINE Pair pair(const uint16_t* p) { return p[0] | static_cast<uint32_t>(p[1]) << 16; }
  static LOCKSTEP_INLINE Weights weights(const std::byte* p) { return _mm512_loadu_si512(p); }
  static LOCKSTEP_INLINE Values values(Pair x) { return _mm512_set1_epi32(static_cast<int32_t>(x)); }
  static LOCKSTEP_INLINE Lanes dot(Values x, Weights w, Lanes acc) {
#ifdef LOCKSTEP_USE_SIMDE
    const auto half = [](__m512i pairs, int odd) {
      const __m512i words = odd != 0 ? pairs : _mm512_slli_epi32(pairs, 16);
      return Lanes{_mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u))))};
    };
    return fma(half(x, 0), half(w, 0), fma(half(x, 1), half(w, 1), acc));
#else
    return {_mm512_dpbf16_ps(acc.v, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x))};
#endif
  }
};

}  // namespace

namespace LOCKSTEP_AVX512_NAMESPACE {

void add_bf16dot_matmul_native(KernelTable* table) {
  set_matmul(table, WeightFormat::kBF16Dot, matmul_bf16dot<NativeDot>);
  table->round_row_bf16 = round_row_bf16;
}

}  // namespace LOCKSTEP_AVX512_NAMESPACE
}  // namespace lockstep::kernels
