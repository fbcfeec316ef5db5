// SPDX-License-Identifier: Apache-2.0
// Inner loops of measure.cpp, one object file per instruction set, one symbol each.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::cpu {

struct PeakLoops {
  /// Runs `rounds` rounds of independent fused multiply-adds; returns the floating-point operations done. *sink keeps
  /// the result alive.
  double (*fma)(int64_t rounds, float* sink);
  /// Reads `bytes` (a multiple of 4096) once from `streams` evenly spaced places at a time (1 or 4), prefetching
  /// `ahead` bytes; returns something that depends on all of them.
  uint64_t (*read)(const std::byte* data, int64_t bytes, int streams, int64_t ahead);
  /// Runs `rounds` rounds of independent int8 multiply-adds; returns the operations done (two a multiply-add). Null:
  /// this set has no better way than the set below it.
  double (*int8)(int64_t rounds, int32_t* sink);
};

PeakLoops avx2_peak_loops();
PeakLoops avx512_peak_loops();
PeakLoops avx512_vnni_peak_loops();  ///< int8 alone

}  // namespace lockstep::cpu
