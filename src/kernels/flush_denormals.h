// SPDX-License-Identifier: Apache-2.0
// The floating-point environment of AVX512_BF16's dot products, for code that does their arithmetic by other
// instructions.
#pragma once

#include <immintrin.h>

namespace lockstep::kernels {
namespace {

/// While it lives, denormal inputs count as zeros (DAZ) and denormal results become zeros (FTZ). What runs under it
/// must be a function that is not inlined: compilers move arithmetic across a change of MXCSR.
class FlushDenormals {
 public:
  FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040u); }
  ~FlushDenormals() { _mm_setcsr(saved_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  unsigned saved_;
};

}  // namespace
}  // namespace lockstep::kernels
