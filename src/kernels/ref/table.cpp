// SPDX-License-Identifier: Apache-2.0
#include "kernels/isa_tables.h"
#include "kernels/ref/ref_kernels.h"

namespace lockstep::kernels {
namespace {

constexpr KernelTable kTable = {
    .isa = "ref",
    .matmul = {ref::matmul_f32, ref::matmul_f16, ref::matmul_bf16, ref::matmul_q8g32, ref::matmul_q4_0,
               ref::matmul_q4_1, ref::matmul_q5_0, ref::matmul_q5_1, ref::matmul_q2_k, ref::matmul_q3_k,
               ref::matmul_q4_k, ref::matmul_q5_k, ref::matmul_q6_k, ref::matmul_iq4_nl, ref::matmul_iq4_xs,
               ref::matmul_w8a16, ref::matmul_w8a8, ref::matmul_bf16dot},
    .quantize_g32 = ref::quantize_g32,
    .quantize_g64 = ref::quantize_g64,
    .quantize_row16 = ref::quantize_row16,
    .round_row_bf16 = ref::round_row_bf16,
    .attend_segment = {ref::attend_segment_bf16, ref::attend_segment_f32},
    .attend_contiguous = {ref::attend_contiguous_bf16, ref::attend_contiguous_f32},
    .merge_segment = ref::merge_segment,
    .finish_attention = ref::finish_attention,
    .store_kv = {ref::store_kv_bf16, ref::store_kv_f32},
    .rms_norm = ref::rms_norm,
    .rope = ref::rope,
    .silu_mul = ref::silu_mul,
    .add = ref::add,
    .argmax = ref::argmax,
    .sum_exp = ref::sum_exp,
    .exp_array = ref::exp_array,
};

}  // namespace

const KernelTable& ref_table() { return kTable; }

}  // namespace lockstep::kernels
