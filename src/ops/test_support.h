// SPDX-License-Identifier: Apache-2.0
// What the tests of ops/ share: every table that this CPU runs, random data, packed matrices.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/half.h"
#include "base/random.h"
#include "gtest/gtest.h"
#include "kernels/pack.h"
#include "ops/context.h"
#include "ops/matmul.h"
#include "ops/matrix.h"

namespace lockstep::ops::testing {

/// Reproducible numbers by Philox.
class Random {
 public:
  explicit Random(uint32_t seed) : seed_(seed) {}
  uint32_t bits() { return philox4x32({counter_++, 0, 0, 0}, {seed_, 77})[0]; }
  /// Uniform in [-1, 1).
  float uniform() { return static_cast<float>(static_cast<int32_t>(bits())) * 0x1p-31f; }
  /// Roughly normal, by the sum of four uniforms.
  float normal() { return (uniform() + uniform() + uniform() + uniform()) * 0.87f; }
  int64_t below(int64_t n) { return static_cast<int64_t>(bits()) % n; }
  std::vector<float> normals(int64_t n, float scale = 1.0f) {
    std::vector<float> out(static_cast<size_t>(n));
    for (float& x : out) x = normal() * scale;
    return out;
  }

 private:
  uint32_t seed_;
  uint32_t counter_ = 0;
};

/// Every table that this binary and CPU have, "ref" first.
inline std::vector<const kernels::KernelTable*> all_tables() {
  std::vector<const kernels::KernelTable*> tables;
  for (const char* name : {"ref", "avx2", "avx512", "avx512vnni", "avx512bf16"}) {
    if (const auto table = kernels::select_kernels(name)) tables.push_back(*table);
  }
  return tables;
}

struct Engine {
  Engine(const kernels::KernelTable* table, int threads) : pool(threads, /*pin=*/false), ctx{table, &pool} {}
  cpu::ThreadPool pool;
  Context ctx;
};

/// A matrix as a file holds it, and its values.
struct Source {
  DType dtype = DType::kF32;
  int64_t n = 0, k = 0;
  int64_t row_bytes = 0;
  std::vector<std::byte> bytes;
  std::vector<float> values;  // [n][k] exact
  std::vector<const std::byte*> rows(int64_t first, int64_t count) const {
    std::vector<const std::byte*> out;
    for (int64_t i = first; i < first + count; ++i) out.push_back(bytes.data() + i * row_bytes);
    return out;
  }
};

inline void put_half(std::byte* at, uint16_t word) { std::memcpy(at, &word, 2); }

/// Blocks of GGUF's types beside Q8_0, Q4_0 and Q4_1: random bytes and small scales. Values by kernels/pack.h, which is
/// tested against golden values.
inline void fill_block_row(kernels::SourceType source, size_t d, size_t m, int64_t k, Random& random, std::byte* bytes,
                           float* values) {
  const int64_t elements = kernels::source_block_elements(source);
  const int64_t block_bytes = kernels::source_row_bytes(source, elements);
  for (int64_t i = 0; i < kernels::source_row_bytes(source, k); ++i) bytes[i] = static_cast<std::byte>(random.bits());
  const float scale = elements == 32 ? 0.1f : 0.005f;
  for (std::byte* block = bytes; block < bytes + kernels::source_row_bytes(source, k); block += block_bytes) {
    put_half(block + m, f32_to_f16(random.normal() * 4.0f * scale));
    put_half(block + d, f32_to_f16(random.normal() * scale));
  }
  kernels::dequantize_row(source, bytes, k, values);
}

/// One row of random weights and their bytes; block types get random codes and scales.
inline void fill_row(DType dtype, int64_t k, Random& random, std::byte* bytes, float* values) {
  if (dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16) {
    for (int64_t i = 0; i < k; ++i) {
      const float x = random.normal();
      if (dtype == DType::kF32) {
        std::memcpy(bytes + 4 * i, &x, 4);
        values[i] = x;
      } else {
        const uint16_t word = dtype == DType::kF16 ? f32_to_f16(x) : f32_to_bf16(x);
        put_half(bytes + 2 * i, word);
        values[i] = dtype == DType::kF16 ? f16_to_f32(word) : bf16_to_f32(word);
      }
    }
    return;
  }
  using kernels::SourceType;
  switch (dtype) {
    case DType::kQ5_0:
      return fill_block_row(SourceType::kQ5_0, 0, 0, k, random, bytes, values);
    case DType::kQ5_1:
      return fill_block_row(SourceType::kQ5_1, 0, 2, k, random, bytes, values);
    case DType::kQ2_K:
      return fill_block_row(SourceType::kQ2_K, 80, 82, k, random, bytes, values);
    case DType::kQ3_K:
      return fill_block_row(SourceType::kQ3_K, 108, 108, k, random, bytes, values);
    case DType::kQ4_K:
      return fill_block_row(SourceType::kQ4_K, 0, 2, k, random, bytes, values);
    case DType::kQ5_K:
      return fill_block_row(SourceType::kQ5_K, 0, 2, k, random, bytes, values);
    case DType::kQ6_K:
      return fill_block_row(SourceType::kQ6_K, 208, 208, k, random, bytes, values);
    case DType::kIQ4_NL:
      return fill_block_row(SourceType::kIQ4_NL, 0, 0, k, random, bytes, values);
    case DType::kIQ4_XS:
      return fill_block_row(SourceType::kIQ4_XS, 0, 0, k, random, bytes, values);
    default:
      break;
  }
  for (int64_t block = 0; block < k / 32; ++block, bytes += dtype_info(dtype).block_bytes, values += 32) {
    const uint16_t d = f32_to_f16(random.normal() * (dtype == DType::kQ8_0 ? 0.01f : 0.1f));
    const uint16_t m = f32_to_f16(random.normal() * 0.5f);
    put_half(bytes, d);
    if (dtype == DType::kQ4_1) put_half(bytes + 2, m);
    std::byte* q = bytes + (dtype == DType::kQ4_1 ? 4 : 2);
    for (int64_t i = 0; i < (dtype == DType::kQ8_0 ? 32 : 16); ++i) {
      const uint32_t word = random.bits() & 255u;
      q[i] = static_cast<std::byte>(word);
      if (dtype == DType::kQ8_0) values[i] = f16_to_f32(d) * static_cast<float>(static_cast<int8_t>(word));
      if (dtype == DType::kQ4_0) {
        values[i] = f16_to_f32(d) * (static_cast<float>(word & 15u) - 8.0f);
        values[i + 16] = f16_to_f32(d) * (static_cast<float>(word >> 4) - 8.0f);
      }
      if (dtype == DType::kQ4_1) {
        const float scaled_low = f16_to_f32(d) * static_cast<float>(word & 15u);
        const float scaled_high = f16_to_f32(d) * static_cast<float>(word >> 4);
        values[i] = scaled_low + f16_to_f32(m);
        values[i + 16] = scaled_high + f16_to_f32(m);
      }
    }
  }
}

inline Source random_source(DType dtype, int64_t n, int64_t k, uint32_t seed) {
  Source source;
  source.dtype = dtype;
  source.n = n;
  source.k = k;
  source.row_bytes = *dtype_bytes(dtype, k);
  source.bytes.resize(static_cast<size_t>(n * source.row_bytes));
  source.values.resize(static_cast<size_t>(n * k));
  Random random(seed);
  for (int64_t i = 0; i < n; ++i) {
    fill_row(dtype, k, random, source.bytes.data() + i * source.row_bytes, source.values.data() + i * k);
  }
  return source;
}

inline Matrix pack(const Context& ctx, const Source& source, kernels::WeightFormat format) {
  auto builder = MatrixBuilder::create(format, source.n, source.k, "test matrix");
  LOCKSTEP_CHECK(builder.has_value());
  LOCKSTEP_CHECK(builder->add_rows(ctx, 0, source.dtype, source.rows(0, source.n)).ok());
  return std::move(*builder).finish();
}

inline View<const float> view(const std::vector<float>& data, int64_t rows, int64_t columns) {
  return View<const float>(data.data(), {rows, columns});
}
inline View<float> view(std::vector<float>& data, int64_t rows, int64_t columns) {
  return View<float>(data.data(), {rows, columns});
}
template <class T>
View<const T> view1(const std::vector<T>& data) {
  return data.empty() ? View<const T>() : View<const T>(data.data(), {static_cast<int64_t>(data.size())});
}

/// Equality of bits, so that -0 != +0 and NaN == NaN.
inline void expect_same_bits(const float* a, const float* b, int64_t n, const std::string& what) {
  for (int64_t i = 0; i < n; ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      ADD_FAILURE() << what << ": element " << i << " is " << a[i] << ", expected " << b[i];
      return;
    }
  }
}
inline void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  expect_same_bits(a.data(), b.data(), static_cast<int64_t>(a.size()), what);
}

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace lockstep::ops::testing
