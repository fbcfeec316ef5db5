// SPDX-License-Identifier: Apache-2.0
// Cutting [rows, columns] work into pieces. The cut never changes a result (each row's or column's arithmetic is
// whole), only how well threads share the work.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/context.h"

namespace lockstep::ops {

inline constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline constexpr int64_t round_up(int64_t a, int64_t multiple) { return ceil_div(a, multiple) * multiple; }

/// Calls body(first_row, end_row) for pieces of whole rows that are worth a hand-over to another thread: starting a
/// fork costs about 2 us, so a piece has at least `grain` elements.
template <class Body>
void for_each_rows(const Context& ctx, int64_t rows, int64_t columns, int64_t grain, Body&& body) {
  const int64_t rows_per_piece = std::max<int64_t>(1, ceil_div(grain, std::max<int64_t>(1, columns)));
  ctx.pool->parallel_for(ceil_div(rows, rows_per_piece), [&](int64_t piece, int) {
    const int64_t first = piece * rows_per_piece;
    body(first, std::min(rows, first + rows_per_piece));
  });
}

}  // namespace lockstep::ops
