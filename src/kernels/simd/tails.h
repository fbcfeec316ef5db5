// SPDX-License-Identifier: Apache-2.0
// Loops over arrays of which the last sixteen lanes may be fewer. Include after the lanes header.
#pragma once

#include <cstdint>

namespace lockstep::kernels {
namespace {

constexpr int64_t kLanes = 16;

/// Calls whole(i) for each full group of 16 below n, then tail(i, left) if some are left.
template <class Whole, class Tail>
LOCKSTEP_INLINE void for_lanes(int64_t n, Whole whole, Tail tail) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) whole(i);
  if (i < n) tail(i, n - i);
}

/// A panel's 16 output columns, of which the matrix may have fewer.
LOCKSTEP_INLINE void store_columns(float* out, int64_t columns, Lanes x) {
  if (columns >= 16) {
    store(out, x);
  } else {
    store_first(out, columns, x);
  }
}
LOCKSTEP_INLINE Lanes load_columns(const float* out, int64_t columns) {
  return columns >= 16 ? load(out) : load_first(out, columns);
}

}  // namespace
}  // namespace lockstep::kernels
