// SPDX-License-Identifier: Apache-2.0
#include "kernels/simd/lanes_avx512.h"
// The lanes come first.
#include "kernels/avx512/avx512_kernels.h"
#include "kernels/simd/attention.h"
#include "kernels/simd/contiguous_attention.h"
#include "kernels/simd/fill.h"

namespace lockstep::kernels::LOCKSTEP_AVX512_NAMESPACE {

void add_attention(KernelTable* table) {
  set_attention(table, KvDType::kBF16, attend_segment<BF16Kv>, store_kv<BF16Kv>);
  set_attention(table, KvDType::kF32, attend_segment<F32Kv>, store_kv<F32Kv>);
  set_contiguous(table, KvDType::kBF16, attend_contiguous<BF16Kv>);
  set_contiguous(table, KvDType::kF32, attend_contiguous<F32Kv>);
  table->merge_segment = merge_segment;
  table->finish_attention = finish_attention;
}

}  // namespace lockstep::kernels::LOCKSTEP_AVX512_NAMESPACE
