// SPDX-License-Identifier: Apache-2.0
// Where a table's entries are, for the source files that fill them in.
#pragma once

#include "kernels/table.h"

namespace lockstep::kernels {
namespace {

[[gnu::always_inline]] inline void set_matmul(KernelTable* table, WeightFormat format, MatmulFn function) {
  table->matmul[static_cast<int>(format)] = function;
}
[[gnu::always_inline]] inline void set_attention(KernelTable* table, KvDType dtype, AttendFn attend, StoreKvFn store) {
  table->attend_segment[static_cast<int>(dtype)] = attend;
  table->store_kv[static_cast<int>(dtype)] = store;
}
[[gnu::always_inline]] inline void set_contiguous(KernelTable* table, KvDType dtype, AttendContiguousFn attend) {
  table->attend_contiguous[static_cast<int>(dtype)] = attend;
}

}  // namespace
}  // namespace lockstep::kernels
