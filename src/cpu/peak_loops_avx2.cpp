// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "cpu/peak_loops.h"

namespace lockstep::cpu {
namespace {

constexpr int kChains = 12;  // latency 4 x 2 a cycle needs 8

double fma_loop(int64_t rounds, float* sink) {
  __m256 acc[kChains];
  const __m256 factor = _mm256_set1_ps(0.999f);
  const __m256 term = _mm256_set1_ps(0.001f);
  for (int i = 0; i < kChains; ++i) acc[i] = _mm256_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) acc[i] = _mm256_fmadd_ps(acc[i], factor, term);
  }
  __m256 total = acc[0];
  for (int i = 1; i < kChains; ++i) total = _mm256_add_ps(total, acc[i]);
  *sink = _mm256_cvtss_f32(total);
  return static_cast<double>(rounds) * kChains * 8 * 2;
}

// Sums of pairs in 16 bits: what int4 weights allow for a while, int8 weights need more instructions.
double int8_loop(int64_t rounds, int32_t* sink) {
  __m256i acc[kChains];
  __m256i bytes = _mm256_set1_epi8(1);
  const __m256i weights = _mm256_set1_epi8(1);
  for (int i = 0; i < kChains; ++i) acc[i] = _mm256_set1_epi16(static_cast<int16_t>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) {
      asm("" : "+x"(bytes));  // else the product is the same in every round
      acc[i] = _mm256_add_epi16(acc[i], _mm256_maddubs_epi16(bytes, weights));
    }
  }
  __m256i total = acc[0];
  for (int i = 1; i < kChains; ++i) total = _mm256_add_epi16(total, acc[i]);
  *sink = _mm256_extract_epi32(total, 0);
  return static_cast<double>(rounds) * kChains * 32 * 2;
}

uint64_t read_loop(const std::byte* data, int64_t bytes, int streams, int64_t ahead) {
  __m256i total = _mm256_setzero_si256();
  const int64_t part = bytes / streams;
  for (int64_t at = 0; at < part; at += 128) {
    for (int s = 0; s < streams; ++s) {
      const std::byte* from = data + s * part + at;
      _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(from + ahead + 64), _MM_HINT_T0);
      const auto* words = reinterpret_cast<const __m256i*>(from);
      const __m256i a = _mm256_xor_si256(_mm256_load_si256(words), _mm256_load_si256(words + 1));
      const __m256i b = _mm256_xor_si256(_mm256_load_si256(words + 2), _mm256_load_si256(words + 3));
      total = _mm256_xor_si256(total, _mm256_xor_si256(a, b));
    }
  }
  return static_cast<uint64_t>(_mm256_extract_epi64(total, 0));
}

}  // namespace

PeakLoops avx2_peak_loops() { return {fma_loop, read_loop, int8_loop}; }

}  // namespace lockstep::cpu
