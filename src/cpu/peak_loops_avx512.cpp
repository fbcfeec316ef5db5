// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "cpu/peak_loops.h"

namespace lockstep::cpu {
namespace {

constexpr int kChains = 16;

double fma_loop(int64_t rounds, float* sink) {
  __m512 acc[kChains];
  const __m512 factor = _mm512_set1_ps(0.999f);
  const __m512 term = _mm512_set1_ps(0.001f);
  for (int i = 0; i < kChains; ++i) acc[i] = _mm512_set1_ps(static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) acc[i] = _mm512_fmadd_ps(acc[i], factor, term);
  }
  __m512 total = acc[0];
  for (int i = 1; i < kChains; ++i) total = _mm512_add_ps(total, acc[i]);
  *sink = _mm512_cvtss_f32(total);
  return static_cast<double>(rounds) * kChains * 16 * 2;
}

uint64_t read_loop(const std::byte* data, int64_t bytes, int streams, int64_t ahead) {
  __m512i total = _mm512_setzero_si512();
  const int64_t part = bytes / streams;
  for (int64_t at = 0; at < part; at += 128) {
    for (int s = 0; s < streams; ++s) {
      const std::byte* from = data + s * part + at;
      _mm_prefetch(reinterpret_cast<const char*>(from + ahead), _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(from + ahead + 64), _MM_HINT_T0);
      total = _mm512_xor_si512(total, _mm512_xor_si512(_mm512_load_si512(from), _mm512_load_si512(from + 64)));
    }
  }
  alignas(64) uint64_t words[8];
  _mm512_store_si512(words, total);
  return words[0];
}

}  // namespace

PeakLoops avx512_peak_loops() { return {fma_loop, read_loop, nullptr}; }

}  // namespace lockstep::cpu
