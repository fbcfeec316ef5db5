// SPDX-License-Identifier: Apache-2.0
// The kernel table: single-threaded functions over pointers and sizes, one implementation per instruction set, all
// equal in bits to the scalar reference (docs/numerics.md). No function allocates, none keeps state.
//
// Common conventions. Pointers of activations and outputs are 4-byte aligned; weights are 32-byte aligned panels.
// Outputs are written exactly for the rows and columns named, never past them; inputs are read exactly likewise
// (padding inside packed weights and inside quantised rows may be read). fma = fused multiply-add; "tree16" reduces 16
// lanes as l[i] += l[i+8], += l[i+4], += l[i+2], += l[i+1] (for maxima likewise).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "kernels/packed.h"

namespace lockstep::kernels {

enum class KvDType : uint8_t { kBF16, kF32 };
inline int64_t kv_dtype_bytes(KvDType dtype) { return dtype == KvDType::kBF16 ? 2 : 4; }

/// KV tiles: 16 consecutive slots of one kv head. K tile: [dim][16], V tile: [16][dim]. Pages are whole numbers of
/// tiles, so kernels do not know the page size.
inline constexpr int64_t kTileSlots = 16;
/// Absolute positions a softmax segment covers: positions 512*s .. 512*s+511. Independent of pages, chunks and threads.
inline constexpr int64_t kSegmentPositions = 512;
inline constexpr int64_t kSegmentTiles = kSegmentPositions / kTileSlots;
/// Bits of 2^-120: quantize_g32 takes a group with a smaller largest magnitude as zeros.
inline constexpr uint32_t kQuantizeZeroBits = 0x03800000u;
/// Bits of 2^-116: the same for quantize_row16.
inline constexpr uint32_t kQuantize16ZeroBits = 0x05800000u;
/// Query rows a call to attend_segment may have.
inline constexpr int64_t kMaxQueryRows = 16;

/// One or more rows of x times panels of W, f32 accumulators, one chain over k ascending.
struct MatmulArgs {
  const std::byte* weights;  ///< first panel
  int64_t n;                 ///< output columns 0..n-1 relative to `weights` and `out`
  int64_t k;
  int64_t m;         ///< rows, >= 1
  const float* x;    ///< [m][k] for formats with f32 activations
  int64_t x_stride;  ///< elements between rows of x
  const int8_t*
      xq;  ///< [m][groups*G] for int8 activations, in groups of G = 32 (kInt8G32) or 64 (kInt8G64); zero past k
  const int16_t* xq16;   ///< [m][num_channel_groups(k)*64] for int16 activations, as quantize_row16 writes them
  const uint16_t* xb16;  ///< [m][num_channel_groups(k)*64] for bf16 activations; zero past k
  int64_t xq_stride;     ///< elements between rows of xq, xq16 or xb16
  const float* x_scale;  ///< [m][groups]; int16: [m][1]
  const int32_t* x_sum;  ///< [m][groups] sums of xq over the group; int16: not used
  int64_t group_stride;  ///< elements between rows of x_scale and x_sum
  float* out;            ///< [m][n]
  int64_t out_stride;
};
/// f32 activations: acc = 0; for k ascending acc = fma(x[k], f32(w[k]), acc); out = acc.
/// int8 activations: for groups ascending, isum = exact int32 sum of xq*q (q - 8 for Q4_0), acc = fma(float(isum),
/// x_scale * d, acc), and for Q4_1 then acc = fma(x_scale * float(x_sum), m, acc). Other stored blocks
/// (block_layout.h): the same per sub-block, ascending, with the sub-block's own d and m and the sum of its 16 or 32
/// activations.
/// kW8A8: for groups of 64 ascending, acc = fma(float(isum), x_scale, acc); out = acc * scale of the column.
/// kW8A16: for blocks of kExactElements of k ascending, acc = acc + float(exact int32 sum of the block); out = acc *
/// (x_scale * scale of the column).
/// kBF16Dot: for pairs of k ascending, as AVX512_BF16's vdpbf16ps defines it: acc = fma(x[2j+1], w[2j+1], acc), then
/// acc = fma(x[2j], w[2j], acc), round to nearest even, with denormal inputs taken as zeros and denormal results
/// flushed to zero whatever MXCSR says.
using MatmulFn = void (*)(const MatmulArgs&);

/// Query rows of one kv head against one segment of positions.
struct AttendArgs {
  int64_t rows;    ///< 1..kMaxQueryRows
  int64_t dim;     ///< head_dim, a multiple of 2
  const float* q;  ///< row r at q + r*q_stride, already multiplied by the softmax scale
  int64_t q_stride;
  const int32_t* lengths;  ///< [rows] positions of the segment that the row attends to: 1..512. Bounds the loops: slots
                           ///< past it are never used
  const void* const* k_tiles;  ///< [ceil(max length / 16)]
  const void* const* v_tiles;
  const void* const* next_k_tiles = nullptr;  ///< a hint: K tiles that the same thread will want next
  int64_t next_tiles = 0;                     ///< of them; 0 = unknown
  float* scratch;                             ///< [kMaxQueryRows * kSegmentPositions]
  float* out_max;                             ///< [rows]
  float* out_sum;                             ///< [rows]
  float* out_acc;  ///< [rows][dim] dense; sum over positions of exp(s - max) * v, not normalised
};
/// s[p] = chain over d ascending of fma(q[d], k[d][p], s), s from 0; max over the length (+0 and -0 alike: +0);
/// e[p] = exp(s[p] - max); sum by lane p mod 16 ascending, then tree16; acc[d] = chain over p ascending of fma(e[p],
/// v[p][d], acc).
using AttendFn = void (*)(const AttendArgs&);

/// The same over K and V that lie in rows: [position][dim] from the segment's first position on, readable up to the
/// next multiple of 16 positions. The baseline that paged attention is compared with; no page is ever attended through
/// it.
struct AttendContiguousArgs {
  AttendArgs segment;  ///< k_tiles and v_tiles are not used
  const void* k;
  const void* v;
  void* tiles;  ///< scratch, [kContiguousTiles][dim][16] of the KV dtype
};
inline constexpr int64_t kContiguousTiles = 4;
/// Equal in bits to AttendFn over tiles of the same values.
using AttendContiguousFn = void (*)(const AttendContiguousArgs&);
using StoreKvFn = void (*)(const float* k, const float* v, int64_t dim, void* k_tile, void* v_tile, int64_t slot);

struct ArgMax {
  int32_t index;  ///< smallest index of the largest value
  float value;
  bool finite;  ///< false if any value is NaN or infinite; index is then meaningless
};

struct KernelTable {
  std::string_view isa;  ///< "ref", "avx2", "avx512", "avx512vnni", "avx512bf16"

  // Matmul, indexed by WeightFormat.
  MatmulFn matmul[kNumWeightFormats];

  /// Row of k floats -> int8 per group of 32 (padded with zeros to whole groups): amax = largest |x| by bits; scale =
  /// amax/127; q = round-to-nearest-even(x * (127/amax)) ; amax < 2^-120 (0 included: 127/amax must stay finite) ->
  /// scale 0, q 0; sums per group. Returns false (and writes zeros for the group) on NaN or infinity.
  bool (*quantize_g32)(const float* x, int64_t k, int8_t* q, float* scale, int32_t* sum);

  /// The same per group of 64.
  bool (*quantize_g64)(const float* x, int64_t k, int8_t* q, float* scale, int32_t* sum);
  /// Row of k floats -> int16 (padded with zeros to a multiple of 64), one scale: amax/2047; q =
  /// round-to-nearest-even(x
  /// * (2047/amax)); amax < 2^-116 -> scale 0, q 0. Each four lie in the order 0, 2, 1, 3. Returns false (and writes
  /// zeros) on NaN or infinity.
  bool (*quantize_row16)(const float* x, int64_t k, int16_t* q, float* scale);

  /// Row of k floats -> bf16 (nearest even; padded with zeros to a multiple of 64). Returns false if one is not finite
  /// in bf16.
  bool (*round_row_bf16)(const float* x, int64_t k, uint16_t* out);

  // Attention, indexed by KvDType.
  AttendFn attend_segment[2];
  AttendContiguousFn attend_contiguous[2];
  /// Running softmax: m' = max(m, m2); l = l*exp(m-m') + l2*exp(m2-m'); acc likewise (a multiply and an fma: acc =
  /// fma(acc, a, acc2*b)). +0 and -0 of m' alike: +0. Start with m = -inf, l = 0, acc = 0. Updates m, l, acc.
  void (*merge_segment)(float* m, float* l, float* acc, float m2, float l2, const float* acc2, int64_t dim);
  /// out[d] = acc[d] / l.
  void (*finish_attention)(const float* acc, float l, int64_t dim, float* out);
  /// Writes one K row (f32 [dim]) as column `slot` of a K tile, one V row as row `slot` of a V tile, rounded to the KV
  /// dtype.
  StoreKvFn store_kv[2];

  /// out[i] = (x[i] * (1 / sqrt(mean(x^2) + eps))) * w[i]; squares summed by 16 lanes (lane i mod 16, fma chain) and
  /// tree16. out may be x.
  void (*rms_norm)(const float* x, const float* w, float eps, int64_t n, float* out);
  /// Half-split rope in place: (x[i], x[i+d/2]) -> (x[i]*cos[i] - x[i+d/2]*sin[i], x[i+d/2]*cos[i] + x[i]*sin[i]), as
  /// fma(x0, c, -(x1*s)) and fma(x1, c, x0*s).
  void (*rope)(float* x, const float* cos, const float* sin, int64_t dim);
  /// out[i] = silu(gate[i]) * up[i], silu(x) = x / (1 + exp(-x)). out may be gate.
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* out);
  /// x[i] += y[i].
  void (*add)(float* x, const float* y, int64_t n);

  // Choice and log-probabilities. Callers cut the vocabulary into fixed pieces.
  ArgMax (*argmax)(const float* x, int64_t n);
  /// Sum of exp(x[i] - shift) by 16 lanes and tree16.
  float (*sum_exp)(const float* x, int64_t n, float shift);
  /// out[i] = exp(x[i]). out may be x.
  void (*exp_array)(const float* x, int64_t n, float* out);
};

/// exp as every kernel computes it: <= 2 ulp, 0 below ln(2^-126), +inf above ln(max), NaN for NaN.
float exp_ref(float x);
/// Natural log for x > 0 (<= 2 ulp), used for log-sum-exp; scalar, same code on every machine.
float log_ref(float x);
/// sin and cos of a non-negative f32 angle, by double-precision range reduction and polynomials of our own; rounded to
/// f32.
void sin_cos_ref(float angle, float* sin, float* cos);
/// base^exponent for base > 0, double precision polynomials of our own (rope's inverse frequencies); relative error <
/// 1e-14.
double pow_ref(double base, double exponent);

/// The tables that this binary holds and this CPU can run, lowest first; always contains "ref" where AVX2+FMA is
/// present. kUnsupported if the CPU lacks AVX2, FMA or F16C (the engine's floor).
Expected<const KernelTable*> select_kernels(
    std::string_view isa_override);  ///< "" = best that passes its self-check; a name = that one or an error
/// Compares a table with the reference for a few milliseconds. An error names the kernel that differs.
Status self_check(const KernelTable& table);

}  // namespace lockstep::kernels
