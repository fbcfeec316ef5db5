// SPDX-License-Identifier: Apache-2.0
// The formats of block_layout.h with vpdpbusd: codes are unsigned; IQ4's values get 128 added, taken back by -128 times
// the sum of the activations.
#include "kernels/simd/lanes_avx512.h"
// The lanes come first.
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/avx512/block_vectors.h"
#include "kernels/simd/fill.h"

namespace lockstep::kernels {
namespace {

struct VnniVectors : Avx512Vectors {
  static constexpr bool kAnyUnsigned = true;

  template <int kWords, int kMaxCode, bool kSigned>
  static LOCKSTEP_INLINE Int dot(const Int* w, const int8_t* x) {
    static_assert(!kSigned);
    Int sum = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (int j = 0; j < kWords; ++j) sum = _mm512_dpbusd_epi32(sum, w[j], dup_word(x, j));
    return sum;
  }
};

}  // namespace

namespace LOCKSTEP_AVX512_NAMESPACE {

void add_block_matmul_vnni(KernelTable* table) { set_all_block_matmuls<VnniVectors>(table); }

}  // namespace LOCKSTEP_AVX512_NAMESPACE
}  // namespace lockstep::kernels
