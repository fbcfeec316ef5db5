// SPDX-License-Identifier: Apache-2.0
// Packed weight layouts, shared by all instruction sets. A weight matrix W is [n, k] (n output features). Panels of 16
// output columns lie one after another; the last panel is padded with zeros. Vectors run over the 16 columns and x[k]
// is broadcast, so one row and many rows accumulate in the same order, and so do 8 and 16 lanes.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::kernels {

inline constexpr int64_t kPanelColumns = 16;
inline constexpr int64_t kGroup = 32;  ///< elements of k that share a scale in the grouped formats

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
};
inline constexpr int kNumWeightFormats = 15;

/// Bytes of a group of 32 x 16 weights with its scales.
inline constexpr int64_t kQ8GroupBytes = kGroup * kPanelColumns + 2 * kPanelColumns;
inline constexpr int64_t kQ4_0GroupBytes = kGroup * kPanelColumns / 2 + 2 * kPanelColumns;
inline constexpr int64_t kQ4_1GroupBytes = kGroup * kPanelColumns / 2 + 4 * kPanelColumns;

std::string_view to_string(WeightFormat format);  ///< "bf16", "w8g32", "q4_0", ...
/// True for formats whose activations are quantised to int8 per group of 32.
bool has_int8_activations(WeightFormat format);
/// Groups of 32 that k elements take; a short last group is padded with zeros.
[[gnu::always_inline]] inline int64_t num_groups(int64_t k) { return (k + kGroup - 1) / kGroup; }
[[gnu::always_inline]] inline int64_t num_panels(int64_t n) { return (n + kPanelColumns - 1) / kPanelColumns; }
/// Bytes of one panel of 16 columns. A multiple of 32.
int64_t panel_bytes(WeightFormat format, int64_t k);
inline int64_t packed_bytes(WeightFormat format, int64_t n, int64_t k) {
  return num_panels(n) * panel_bytes(format, k);
}

}  // namespace lockstep::kernels
