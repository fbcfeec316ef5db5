// SPDX-License-Identifier: Apache-2.0
// Functions of the reference table, by file.
#pragma once

#include "kernels/table.h"

namespace lockstep::kernels::ref {

// matmul.cpp
void matmul_f32(const MatmulArgs& args);
void matmul_f16(const MatmulArgs& args);
void matmul_bf16(const MatmulArgs& args);
void matmul_q8g32(const MatmulArgs& args);
void matmul_q4_0(const MatmulArgs& args);
void matmul_q4_1(const MatmulArgs& args);
bool quantize_g32(const float* x, int64_t k, int8_t* q, float* scale, int32_t* sum);

// matmul_blocks.cpp
void matmul_q5_0(const MatmulArgs& args);
void matmul_q5_1(const MatmulArgs& args);
void matmul_q2_k(const MatmulArgs& args);
void matmul_q3_k(const MatmulArgs& args);
void matmul_q4_k(const MatmulArgs& args);
void matmul_q5_k(const MatmulArgs& args);
void matmul_q6_k(const MatmulArgs& args);
void matmul_iq4_nl(const MatmulArgs& args);
void matmul_iq4_xs(const MatmulArgs& args);

// matmul_channel.cpp
void matmul_w8a16(const MatmulArgs& args);
void matmul_w8a8(const MatmulArgs& args);
bool quantize_g64(const float* x, int64_t k, int8_t* q, float* scale, int32_t* sum);
bool quantize_row16(const float* x, int64_t k, int16_t* q, float* scale);

// matmul_bf16dot.cpp
void matmul_bf16dot(const MatmulArgs& args);
bool round_row_bf16(const float* x, int64_t k, uint16_t* out);

// attention.cpp
void attend_segment_bf16(const AttendArgs& args);
void attend_segment_f32(const AttendArgs& args);
void merge_segment(float* m, float* l, float* acc, float m2, float l2, const float* acc2, int64_t dim);
void finish_attention(const float* acc, float l, int64_t dim, float* out);
void store_kv_bf16(const float* k, const float* v, int64_t dim, void* k_tile, void* v_tile, int64_t slot);
void store_kv_f32(const float* k, const float* v, int64_t dim, void* k_tile, void* v_tile, int64_t slot);

// contiguous_attention.cpp
void attend_contiguous_bf16(const AttendContiguousArgs& args);
void attend_contiguous_f32(const AttendContiguousArgs& args);

// elementwise.cpp
void rms_norm(const float* x, const float* w, float eps, int64_t n, float* out);
void rope(float* x, const float* cos, const float* sin, int64_t dim);
void silu_mul(const float* gate, const float* up, int64_t n, float* out);
void add(float* x, const float* y, int64_t n);
ArgMax argmax(const float* x, int64_t n);
float sum_exp(const float* x, int64_t n, float shift);
void exp_array(const float* x, int64_t n, float* out);

}  // namespace lockstep::kernels::ref
