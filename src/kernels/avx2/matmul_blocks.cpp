// SPDX-License-Identifier: Apache-2.0
// The formats of block_layout.h on AVX2. Codes are unsigned, so vpmaddubsw takes them as they are, and as many pair
// sums as an int16 holds (two of 6-bit codes, four of 5-bit, eight of fewer bits) are added before one vpmaddwd. IQ4's
// values are signed: |w| times x with w's sign.
#include "kernels/simd/lanes_avx2.h"
// The lanes come first.
#include "kernels/avx2/avx2_kernels.h"
#include "kernels/simd/fill.h"
#include "kernels/simd/matmul_blocks.h"

namespace lockstep::kernels {
namespace {

struct Avx2Vectors {
  using Int = __m256i;
  using Float = __m256;
  static constexpr int kColumns = 8;
  static constexpr int kStreamRows = 4;
  static constexpr int kBlockRows = 6;
  static constexpr bool kAnyUnsigned = false;

  static LOCKSTEP_INLINE Int load_bytes(const std::byte* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static LOCKSTEP_INLINE __m128i load_half(const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  }
  static LOCKSTEP_INLINE __m128i load_eight(const std::byte* p) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  }
  static LOCKSTEP_INLINE Float load_f16(const std::byte* p) { return _mm256_cvtph_ps(load_half(p)); }
  static LOCKSTEP_INLINE Int widen_u8(const std::byte* p) { return _mm256_cvtepu8_epi32(load_eight(p)); }
  static LOCKSTEP_INLINE Int widen_i8(const std::byte* p) { return _mm256_cvtepi8_epi32(load_eight(p)); }
  static LOCKSTEP_INLINE Int and_(Int a, Int b) { return _mm256_and_si256(a, b); }
  static LOCKSTEP_INLINE Int or_(Int a, Int b) { return _mm256_or_si256(a, b); }
  static LOCKSTEP_INLINE Int add(Int a, Int b) { return _mm256_add_epi32(a, b); }
  static LOCKSTEP_INLINE Int shl(Int x, int n) { return _mm256_slli_epi16(x, n); }
  static LOCKSTEP_INLINE Int shr(Int x, int n) { return _mm256_srli_epi16(x, n); }
  static LOCKSTEP_INLINE Int shr32(Int x, int n) { return _mm256_srli_epi32(x, n); }
  static LOCKSTEP_INLINE Int set1_byte(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }
  static LOCKSTEP_INLINE Int set1_int(int32_t x) { return _mm256_set1_epi32(x); }
  template <int kOffset>
  static LOCKSTEP_INLINE Int lookup(Int codes) {
    static_assert(kOffset == 0);
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4Values));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), codes);
  }
  static LOCKSTEP_INLINE Float to_float(Int x) { return _mm256_cvtepi32_ps(x); }
  static LOCKSTEP_INLINE Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static LOCKSTEP_INLINE Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  static LOCKSTEP_INLINE Float set1(float x) { return _mm256_set1_ps(x); }
  static LOCKSTEP_INLINE Float load(const float* p) { return _mm256_load_ps(p); }
  static LOCKSTEP_INLINE void store(float* p, Float x) { _mm256_store_ps(p, x); }
  /// Keeps g++ 12 from hoisting the broadcasts of all rows and spilling them.
  static LOCKSTEP_INLINE void pin(Int& x) { __asm__("" : "+x"(x)); }

  template <bool kSigned>
  static LOCKSTEP_INLINE Int pairs_of(Int w, const int8_t* x, int j) {
    const Int value = _mm256_set1_epi32(word_at(x, j));
    if constexpr (kSigned) return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(value, w));
    return _mm256_maddubs_epi16(w, value);
  }
  template <int kWords, int kMaxCode, bool kSigned>
  static LOCKSTEP_INLINE Int dot(const Int* w, const int8_t* x) {
    constexpr int kFit = 32767 / (2 * 127 * kMaxCode);  // pair sums that an int16 holds
    constexpr int kChain = kFit >= kWords ? kWords : (kFit >= 4 ? 4 : (kFit >= 2 ? 2 : 1));
    const Int ones = _mm256_set1_epi16(1);
    Int sum = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int c = 0; c < kWords; c += kChain) {
      Int pairs = pairs_of<kSigned>(w[c], x, c);
#pragma GCC unroll 8
      for (int j = 1; j < kChain; ++j) pairs = _mm256_add_epi16(pairs, pairs_of<kSigned>(w[c + j], x, c + j));
      const Int part = _mm256_madd_epi16(pairs, ones);
      sum = c == 0 ? part : _mm256_add_epi32(sum, part);
    }
    return sum;
  }
};

}  // namespace

namespace avx2 {

void add_block_matmul(KernelTable* table) {
  set_block_matmuls<Avx2Vectors, WeightFormat::kQ5_0, WeightFormat::kQ5_1, WeightFormat::kQ2_K, WeightFormat::kQ3_K,
                    WeightFormat::kQ4_K, WeightFormat::kQ5_K, WeightFormat::kQ6_K, WeightFormat::kIQ4_NL,
                    WeightFormat::kIQ4_XS>(table);
}

}  // namespace avx2
}  // namespace lockstep::kernels
