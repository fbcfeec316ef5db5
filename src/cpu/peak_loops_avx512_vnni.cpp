// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "cpu/peak_loops.h"

namespace lockstep::cpu {
namespace {

constexpr int kChains = 16;

double int8_loop(int64_t rounds, int32_t* sink) {
  __m512i acc[kChains];
  const __m512i bytes = _mm512_set1_epi8(1);
  for (int i = 0; i < kChains; ++i) acc[i] = _mm512_set1_epi32(i);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) acc[i] = _mm512_dpbusd_epi32(acc[i], bytes, bytes);
  }
  __m512i total = acc[0];
  for (int i = 1; i < kChains; ++i) total = _mm512_add_epi32(total, acc[i]);
  *sink = _mm512_cvtsi512_si32(total);
  return static_cast<double>(rounds) * kChains * 64 * 2;
}

}  // namespace

PeakLoops avx512_vnni_peak_loops() { return {nullptr, nullptr, int8_loop}; }

}  // namespace lockstep::cpu
