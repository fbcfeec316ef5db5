// SPDX-License-Identifier: Apache-2.0
// The formats of block_layout.h on AVX-512 BW without VNNI: the routes of avx2/matmul_blocks.cpp.
#include "kernels/simd/lanes_avx512.h"
// The lanes come first.
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/avx512/block_vectors.h"
#include "kernels/simd/fill.h"

namespace lockstep::kernels {
namespace {

struct BwVectors : Avx512Vectors {
  static constexpr bool kAnyUnsigned = false;

  template <bool kSigned>
  static LOCKSTEP_INLINE Int pairs_of(Int w, const int8_t* x, int j) {
    const Int value = dup_word(x, j);
    if constexpr (kSigned) {
      const Int signed_value = _mm512_mask_sub_epi8(value, _mm512_movepi8_mask(w), _mm512_setzero_si512(), value);
      return _mm512_maddubs_epi16(_mm512_abs_epi8(w), signed_value);
    }
    return _mm512_maddubs_epi16(w, value);
  }
  template <int kWords, int kMaxCode, bool kSigned>
  static LOCKSTEP_INLINE Int dot(const Int* w, const int8_t* x) {
    constexpr int kFit = 32767 / (2 * 127 * kMaxCode);  // pair sums that an int16 holds
    constexpr int kChain = kFit >= kWords ? kWords : (kFit >= 4 ? 4 : (kFit >= 2 ? 2 : 1));
    const Int ones = _mm512_set1_epi16(1);
    Int sum = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int c = 0; c < kWords; c += kChain) {
      Int pairs = pairs_of<kSigned>(w[c], x, c);
#pragma GCC unroll 8
      for (int j = 1; j < kChain; ++j) pairs = _mm512_add_epi16(pairs, pairs_of<kSigned>(w[c + j], x, c + j));
      const Int part = _mm512_madd_epi16(pairs, ones);
      sum = c == 0 ? part : _mm512_add_epi32(sum, part);
    }
    return sum;
  }
};

}  // namespace

namespace LOCKSTEP_AVX512_NAMESPACE {

void add_block_matmul(KernelTable* table) { set_all_block_matmuls<BwVectors>(table); }

}  // namespace LOCKSTEP_AVX512_NAMESPACE
}  // namespace lockstep::kernels
