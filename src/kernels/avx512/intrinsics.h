// SPDX-License-Identifier: Apache-2.0
// AVX-512 intrinsics: the compiler's, or SIMDe's emulation of them on AVX2, with which the tests compile these sources again
// (table "avx512-simde") so that their logic is tested on CPUs without AVX-512.
#pragma once

#ifdef LOCKSTEP_USE_SIMDE
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#else
#include <immintrin.h>
#endif
