// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "base/random.h"
#include "kernels/isa_tables.h"
#include "kernels/pack_blocks.h"

namespace lockstep::kernels {
namespace {

SourceType source_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return SourceType::kF32;
    case WeightFormat::kF16:
      return SourceType::kF16;
    case WeightFormat::kBF16:
    case WeightFormat::kBF16Dot:
      return SourceType::kBF16;
    case WeightFormat::kQ8G32:
      return SourceType::kQ8_0;
    case WeightFormat::kQ4_0:
      return SourceType::kQ4_0;
    case WeightFormat::kQ4_1:
      return SourceType::kQ4_1;
    case WeightFormat::kW8A16:
    case WeightFormat::kW8A8:
      return SourceType::kI8Channel;  // has -128, which quantising never makes
    default:
      return static_cast<SourceType>(static_cast<int>(SourceType::kQ5_0) + static_cast<int>(format) -
                                     static_cast<int>(WeightFormat::kQ5_0));
  }
}

template <class T>
void append(std::vector<std::byte>& out, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

/// Random rows as a file would hold them; k is a whole number of blocks.
std::vector<std::byte> source_rows(SourceType source, int64_t n, int64_t k, CaseValues& values) {
  std::vector<std::byte> out;
  const int64_t elements = source_block_elements(source);
  const bool is_blocks = elements > 1;
  for (int64_t row = 0; row < n; ++row) {
    if (source == SourceType::kI8Channel) {
      append(out, values.uniform(0.0f, 0.01f));
      for (int64_t i = 0; i < k; ++i) append(out, static_cast<uint8_t>(i % 37 == 5 ? 0x80 : values.word()));
      continue;
    }
    for (int64_t i = 0; !is_blocks && i < k; ++i) {
      const float value = values.uniform(-1.0f, 1.0f);
      if (source == SourceType::kF32) append(out, value);
      if (source == SourceType::kF16) append(out, f32_to_f16(value));
      if (source == SourceType::kBF16) append(out, f32_to_bf16(value));
    }
    for (int64_t block = 0; is_blocks && block < k / elements; ++block) {
      const size_t start = out.size();
      for (int64_t i = 0; i < source_row_bytes(source, elements); ++i) append(out, static_cast<uint8_t>(values.word()));
      const ScaleOffsets at = scale_offsets(source);
      const float largest = elements == kGroup ? 0.1f : 0.01f;  // K types multiply it by up to 127
      for (const int64_t offset : {at.m, at.d}) {
        const uint16_t half = f32_to_f16(values.uniform(-1.0f, 1.0f) * (offset == at.d ? largest : 10.0f * largest));
        std::memcpy(out.data() + start + offset, &half, sizeof half);
      }
    }
  }
  return out;
}

}  // namespace

uint32_t CaseValues::word() { return philox4x32({counter_++, salt_, 0, 0}, {0x10c57e9u, 0})[0]; }
float CaseValues::uniform(float low, float high) {
  return low + (high - low) * static_cast<float>(word() >> 8) * 0x1p-24f;
}
std::vector<float> CaseValues::floats(int64_t count, float low, float high) {
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = uniform(low, high);
  return out;
}

MatmulCase::MatmulCase(WeightFormat format_in, int64_t m_in, int64_t n_in, int64_t k_in, uint32_t salt)
    : format(format_in), m(m_in), n(n_in), k(k_in), weights(static_cast<size_t>(packed_bytes(format_in, n_in, k_in))) {
  CaseValues values(salt);
  const SourceType source = source_of(format);
  const int64_t block = source_block_elements(source);
  const int64_t padded = (k + block - 1) / block * block;
  const Activations kind = activations_of(format);
  const std::vector<std::byte> rows = source_rows(source, n, padded, values);
  pack_matrix(format, source, rows.data(), source_row_bytes(source, padded), n, padded, weights.data());
  x = values.floats(m * k, -2.0f, 2.0f);
  const bool is_bf16 = kind == Activations::kBF16;
  const bool per_row = kind == Activations::kInt16 || is_bf16;
  xq_stride = kind == Activations::kInt8G32 ? num_groups(k) * kGroup : num_channel_groups(k) * kChannelGroup;
  group_stride = per_row ? 1 : (kind == Activations::kInt8G64 ? num_channel_groups(k) : num_groups(k));
  xq.resize(static_cast<size_t>(per_row ? 0 : m * xq_stride));
  xq16.resize(static_cast<size_t>(kind == Activations::kInt16 ? m * xq_stride : 0));
  xb16.resize(static_cast<size_t>(is_bf16 ? m * xq_stride : 0));
  x_scale.resize(static_cast<size_t>(m * group_stride));
  x_sum.resize(x_scale.size());
  for (int64_t row = 0; row < m; ++row) {
    const float* from = x.data() + row * k;
    const int64_t at = row * group_stride;
    if (is_bf16) {
      ref_table().round_row_bf16(from, k, xb16.data() + row * xq_stride);
      continue;
    }
    if (per_row) {
      ref_table().quantize_row16(from, k, xq16.data() + row * xq_stride, x_scale.data() + at);
      continue;
    }
    const auto quantize = kind == Activations::kInt8G64 ? ref_table().quantize_g64 : ref_table().quantize_g32;
    quantize(from, k, xq.data() + row * xq_stride, x_scale.data() + at, x_sum.data() + at);
  }
}

std::vector<float> MatmulCase::run(MatmulFn function) const {
  std::vector<float> out(static_cast<size_t>(m * out_stride()), kCanary);
  function({.weights = weights.data(),
            .n = n,
            .k = k,
            .m = m,
            .x = x.data(),
            .x_stride = k,
            .xq = xq.data(),
            .xq16 = xq16.data(),
            .xb16 = xb16.data(),
            .xq_stride = xq_stride,
            .x_scale = x_scale.data(),
            .x_sum = x_sum.data(),
            .group_stride = group_stride,
            .out = out.data(),
            .out_stride = out_stride()});
  return out;
}

AttendCase::AttendCase(KvDType dtype_in, int64_t dim_in, std::vector<int32_t> lengths_in, uint32_t salt)
    : dtype(dtype_in), dim(dim_in), lengths(std::move(lengths_in)) {
  CaseValues values(salt);
  const auto rows = static_cast<int64_t>(lengths.size());
  q = values.floats(rows * dim, -1.0f, 1.0f);
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const auto tile_bytes = static_cast<size_t>(kTileSlots * dim * kv_dtype_bytes(dtype));
  std::vector<float> nan(static_cast<size_t>(dim), std::numeric_limits<float>::quiet_NaN());
  for (int64_t first = 0; first < longest; first += kTileSlots) {
    std::vector<std::byte>& k = k_tiles.emplace_back(tile_bytes);
    std::vector<std::byte>& v = v_tiles.emplace_back(tile_bytes);
    for (int64_t slot = 0; slot < kTileSlots; ++slot) {
      const bool used = first + slot < longest;
      const std::vector<float> key = used ? values.floats(dim, -1.0f, 1.0f) : nan;
      const std::vector<float> value = used ? values.floats(dim, -1.0f, 1.0f) : nan;
      ref_table().store_kv[static_cast<int>(dtype)](key.data(), value.data(), dim, k.data(), v.data(), slot);
    }
  }
}

AttendCase::Result AttendCase::run(AttendFn function) const {
  const size_t rows = lengths.size();
  Result out{std::vector<float>(rows + 1, kCanary), std::vector<float>(rows + 1, kCanary),
             std::vector<float>(rows * static_cast<size_t>(dim) + 16, kCanary)};
  std::vector<float> scratch(static_cast<size_t>(kMaxQueryRows * kSegmentPositions),
                             std::numeric_limits<float>::quiet_NaN());
  std::vector<const void*> k, v;
  for (const auto& tile : k_tiles) k.push_back(tile.data());
  for (const auto& tile : v_tiles) v.push_back(tile.data());
  function({.rows = static_cast<int64_t>(rows),
            .dim = dim,
            .q = q.data(),
            .q_stride = dim,
            .lengths = lengths.data(),
            .k_tiles = k.data(),
            .v_tiles = v.data(),
            .scratch = scratch.data(),
            .out_max = out.max.data(),
            .out_sum = out.sum.data(),
            .out_acc = out.acc.data()});
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
           return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y) || (std::isnan(x) && std::isnan(y));
         });
}

}  // namespace lockstep::kernels
