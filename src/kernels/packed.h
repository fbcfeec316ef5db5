// SPDX-License-Identifier: Apache-2.0
// Packed weight layouts, shared by all instruction sets. A weight matrix W is [n, k] (n output features). Panels of 16
// output columns lie one after another; the last panel is padded with zeros. Vectors run over the 16 columns and x[k]
// is broadcast, so one row and many rows accumulate in the same order, and so do 8 and 16 lanes.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::kernels {

inline constexpr int64_t kPanelColumns = 16;
inline constexpr int64_t kGroup = 32;         ///< elements of k that share a scale in the grouped formats
inline constexpr int64_t kChannelGroup = 64;  ///< activations that share a scale in w8a8
inline constexpr int64_t kExactElements =
    8192;  ///< elements of k that w8a16 sums in an int32: 128 * 2047 * 8192 < 2^31

enum class WeightFormat : uint8_t {
  kF32,   ///< panel: f32 [k][16]
  kF16,   ///< panel: f16 [k][16]
  kBF16,  ///< panel: bf16 [ceil(k/2)][16][2] (a 32-bit word holds k = 2*j low, 2*j + 1 high: widening takes a shift and
          ///< a mask)
  kQ8G32,  ///< Q8_0 as stored (w8g32). Per group: i8 [8][16][4] (k = 4*j + i), then f16 scale [16]
  kQ4_0,   ///< Per group: u8 [4][16][4] (low nibble k = 4*j + i, high nibble k = 16 + 4*j + i; value q - 8), f16 scale
           ///< [16]
  kQ4_1,   ///< As kQ4_0 with value d * q + m: nibbles, f16 d [16], f16 m [16]
  // GGUF's other block types as stored, in the order of SourceType: block_layout.h.
  kQ5_0,
  kQ5_1,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kW8A16,    ///< One scale per output channel. Panel: i8 [ceil(k/4)][16][4] (k = 4*j + i), then f32 scale [16]
  kW8A8,     ///< The same panel; other activations
  kBF16Dot,  ///< The panel of kBF16; activations are bf16 too
};
inline constexpr int kNumWeightFormats = 18;

/// What a format's matmul takes as activations.
enum class Activations : uint8_t {
  kF32,      ///< as they are
  kInt8G32,  ///< int8 per group of 32 (KernelTable::quantize_g32)
  kInt8G64,  ///< int8 per group of 64 (quantize_g64)
  kInt16,    ///< int16 per row (quantize_row16)
  kBF16,     ///< rounded to bf16 (round_row_bf16)
};
Activations activations_of(WeightFormat format);

/// Bytes of a group of 32 x 16 weights with its scales.
inline constexpr int64_t kQ8GroupBytes = kGroup * kPanelColumns + 2 * kPanelColumns;
inline constexpr int64_t kQ4_0GroupBytes = kGroup * kPanelColumns / 2 + 2 * kPanelColumns;
inline constexpr int64_t kQ4_1GroupBytes = kGroup * kPanelColumns / 2 + 4 * kPanelColumns;

std::string_view to_string(WeightFormat format);  ///< "bf16", "w8g32", "q4_0", ...
/// True for formats whose activations are rounded first: to int8, int16 or bf16.
bool has_rounded_activations(WeightFormat format);
/// Groups of 32 that k elements take; a short last group is padded with zeros.
[[gnu::always_inline]] inline int64_t num_groups(int64_t k) { return (k + kGroup - 1) / kGroup; }
[[gnu::always_inline]] inline int64_t num_panels(int64_t n) { return (n + kPanelColumns - 1) / kPanelColumns; }
/// The formats with one scale per output channel: quads of k, and the bytes of one for 16 columns.
inline constexpr int64_t kQuadBytes = 4 * kPanelColumns;
[[gnu::always_inline]] inline int64_t channel_quads(int64_t k) { return (k + 3) / 4; }
[[gnu::always_inline]] inline int64_t channel_panel_bytes(int64_t k) {
  return channel_quads(k) * kQuadBytes + 4 * kPanelColumns;
}
/// Groups of 64 that k activations take; a short last group is padded with zeros.
[[gnu::always_inline]] inline int64_t num_channel_groups(int64_t k) { return (k + kChannelGroup - 1) / kChannelGroup; }
/// The panels of bf16: pairs of k, padded with a zero.
[[gnu::always_inline]] inline int64_t bf16_pairs(int64_t k) { return (k + 1) / 2; }
/// Bytes of one panel of 16 columns. A multiple of 32.
int64_t panel_bytes(WeightFormat format, int64_t k);
inline int64_t packed_bytes(WeightFormat format, int64_t n, int64_t k) {
  return num_panels(n) * panel_bytes(format, k);
}

}  // namespace lockstep::kernels
