// SPDX-License-Identifier: Apache-2.0
// AVX-512 intrinsics: the compiler's, or SIMDe's emulation of them on AVX2, with which the tests compile these sources
// again (table "avx512-simde") so that their logic is tested on CPUs without AVX-512.
#pragma once

#ifdef LOCKSTEP_USE_SIMDE
#ifdef __AVX512F__
#error "SIMDe would hand over to the AVX-512 that it is to stand in for"
#endif
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>

// What SIMDe 0.7.4 lacks or declares wrongly. Not inlined: the tiles would take minutes to compile.
namespace lockstep::kernels {
namespace {

[[gnu::noinline]] inline simde__m512 simde_maskz_loadu_ps(simde__mmask16 mask, const float* p) {
  float lanes[16] = {};
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) lanes[i] = p[i];
  }
  return simde_mm512_loadu_ps(lanes);
}
[[gnu::noinline]] inline void simde_mask_storeu_ps(float* p, simde__mmask16 mask, simde__m512 x) {
  float lanes[16];
  simde_mm512_storeu_ps(lanes, x);
  for (int i = 0; i < 16; ++i) {
    if ((mask >> i & 1) != 0) p[i] = lanes[i];
  }
}
[[gnu::noinline]] inline simde__m512 simde_cvtph_ps(__m256i x) {
  simde__m512_private out;
  out.m256[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(x));
  out.m256[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1));
  return simde__m512_from_private(out);
}
[[gnu::noinline]] inline simde__m512 simde_cvtepi32_ps(simde__m512i x) {
  const simde__m512i_private in = simde__m512i_to_private(x);
  simde__m512_private out;
  for (int i = 0; i < 2; ++i) out.m256[i] = _mm256_cvtepi32_ps(in.m256i[i]);
  return simde__m512_from_private(out);
}
[[gnu::noinline]] inline simde__m512i simde_cvtps_epi32(simde__m512 x) {
  const simde__m512_private in = simde__m512_to_private(x);
  simde__m512i_private out;
  for (int i = 0; i < 2; ++i) out.m256i[i] = _mm256_cvtps_epi32(in.m256[i]);
  return simde__m512i_from_private(out);
}
[[gnu::noinline]] inline simde__m512i simde_cvtepu16_epi32(__m256i x) {
  simde__m512i_private out;
  out.m256i[0] = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(x));
  out.m256i[1] = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(x, 1));
  return simde__m512i_from_private(out);
}
[[gnu::noinline]] inline simde__m512i simde_cvtepu8_epi32(__m128i x) {
  simde__m512i_private out;
  out.m256i[0] = _mm256_cvtepu8_epi32(x);
  out.m256i[1] = _mm256_cvtepu8_epi32(_mm_srli_si128(x, 8));
  return simde__m512i_from_private(out);
}
[[gnu::noinline]] inline simde__m512i simde_cvtepi8_epi32(__m128i x) {
  simde__m512i_private out;
  out.m256i[0] = _mm256_cvtepi8_epi32(x);
  out.m256i[1] = _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8));
  return simde__m512i_from_private(out);
}
[[gnu::noinline]] inline __m256i simde_cvtepi32_epi16(simde__m512i x) {
  const simde__m512i_private in = simde__m512i_to_private(x);
  simde__m256i_private out;
  for (int i = 0; i < 16; ++i) out.i16[i] = static_cast<int16_t>(in.i32[i]);
  return simde__m256i_from_private(out);
}
[[gnu::noinline]] inline __m128i simde_cvtepi32_epi8(simde__m512i x) {
  const simde__m512i_private in = simde__m512i_to_private(x);
  simde__m128i_private out;
  for (int i = 0; i < 16; ++i) out.i8[i] = static_cast<int8_t>(in.i32[i]);
  return simde__m128i_from_private(out);
}
[[gnu::noinline]] inline simde__m512i simde_dpbusd_epi32(simde__m512i sum, simde__m512i a, simde__m512i b) {
  simde__m512i_private out = simde__m512i_to_private(sum);
  const simde__m512i_private x = simde__m512i_to_private(a);
  const simde__m512i_private y = simde__m512i_to_private(b);
  for (int i = 0; i < 64; ++i) out.i32[i / 4] += x.u8[i] * y.i8[i];
  return simde__m512i_from_private(out);
}
[[gnu::noinline]] inline simde__m512i simde_dpwssd_epi32(simde__m512i sum, simde__m512i a, simde__m512i b) {
  simde__m512i_private out = simde__m512i_to_private(sum);
  const simde__m512i_private x = simde__m512i_to_private(a);
  const simde__m512i_private y = simde__m512i_to_private(b);
  for (int i = 0; i < 2; ++i)
    out.m256i[i] = _mm256_add_epi32(out.m256i[i], simde_mm256_madd_epi16(x.m256i[i], y.m256i[i]));
  return simde__m512i_from_private(out);
}
[[gnu::noinline]] inline simde__m512i simde_madd_epi16(simde__m512i a, simde__m512i b) {
  const simde__m512i_private x = simde__m512i_to_private(a);
  const simde__m512i_private y = simde__m512i_to_private(b);
  simde__m512i_private out;
  for (int i = 0; i < 2; ++i) out.m256i[i] = simde_mm256_madd_epi16(x.m256i[i], y.m256i[i]);
  return simde__m512i_from_private(out);
}

}  // namespace
}  // namespace lockstep::kernels

#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps(mask, p) simde_maskz_loadu_ps(mask, p)
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps(p, mask, x) simde_mask_storeu_ps(p, mask, x)
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps(x) simde_cvtph_ps(x)
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps(x) simde_cvtepi32_ps(x)
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32(x) simde_cvtps_epi32(x)
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(x) simde_cvtepu16_epi32(x)
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32(x) simde_cvtepu8_epi32(x)
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32(x) simde_cvtepi8_epi32(x)
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16(x) simde_cvtepi32_epi16(x)
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8(x) simde_cvtepi32_epi8(x)
#undef _mm512_dpbusd_epi32
#define _mm512_dpbusd_epi32(sum, a, b) simde_dpbusd_epi32(sum, a, b)
#undef _mm512_dpwssd_epi32
#define _mm512_dpwssd_epi32(sum, a, b) simde_dpwssd_epi32(sum, a, b)
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) simde_madd_epi16(a, b)
#else
#include <immintrin.h>
#endif
