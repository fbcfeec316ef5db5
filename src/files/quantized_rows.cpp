// SPDX-License-Identifier: Apache-2.0
#include "files/quantized_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "base/half.h"
#include "files/mapped_file.h"

namespace lockstep::files {
namespace {

constexpr int64_t kBlock = 32;

template <class T>
void put(std::byte*& out, T value) {
  std::memcpy(out, &value, sizeof value);
  out += sizeof value;
}

/// Sign, 4 bits of exponent with bias 7, 3 bits of mantissa (OCP 8-bit floating point, E4M3).
float f8_e4m3_to_f32(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  float value = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                              : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  if ((code & 0x7f) == 0x7f) value = std::numeric_limits<float>::quiet_NaN();
  return (code & 0x80) != 0 ? -value : value;
}

class Fp8Rows final : public RowSource {
 public:
  explicit Fp8Rows(ByteWeights weights) : in_(std::move(weights)) {
    for (size_t code = 0; code < values_.size(); ++code) values_[code] = f8_e4m3_to_f32(static_cast<uint8_t>(code));
  }
  int64_t row_bytes() const override { return 2 * in_.k; }
  int64_t stored_bytes() const override { return std::ssize(in_.weights); }
  std::string_view stored() const override { return "f8_e4m3"; }
  void release() const override { release_pages(in_.weights); }

  void make_rows(int64_t first, int64_t count, std::byte* out) const override {
    const int64_t columns = (in_.k + in_.block_columns - 1) / in_.block_columns;
    for (int64_t row = first; row < first + count; ++row) {
      const std::byte* codes = in_.weights.data() + row * in_.k;
      const float* scales = in_.scales.data() + row / in_.block_rows * columns;
      for (int64_t block = 0; block < columns; ++block) {
        const int64_t end = std::min(in_.k, (block + 1) * in_.block_columns);
        for (int64_t i = block * in_.block_columns; i < end; ++i) {
          put(out, f32_to_bf16(values_[std::to_integer<uint8_t>(codes[i])] * scales[block]));
        }
      }
    }
  }

 private:
  ByteWeights in_;
  std::array<float, 256> values_;
};

class Int8Rows final : public RowSource {
 public:
  explicit Int8Rows(ByteWeights weights) : in_(std::move(weights)) {}
  int64_t row_bytes() const override { return channel_row_bytes(in_.k); }
  int64_t stored_bytes() const override { return std::ssize(in_.weights); }
  std::string_view stored() const override { return "int8"; }
  void release() const override { release_pages(in_.weights); }

  void make_rows(int64_t first, int64_t count, std::byte* out) const override {
    for (int64_t row = first; row < first + count; ++row) {
      put(out, in_.scales[static_cast<size_t>(row / in_.block_rows)]);
      std::memcpy(out, in_.weights.data() + row * in_.k, static_cast<size_t>(in_.k));
      out += in_.k;
    }
  }

 private:
  ByteWeights in_;
};

uint32_t word_at(std::span<const std::byte> words, int64_t index) {
  uint32_t word;
  std::memcpy(&word, words.data() + 4 * index, sizeof word);
  return word;
}

/// Codes first..first+count-1 of a row, count a multiple of a word's codes but in a row's last word.
void read_codes(const CodedWeights& in, int64_t row, int64_t first, int64_t count, uint8_t* out) {
  const int64_t per_word = 32 / in.bits;
  const uint32_t mask = (1u << in.bits) - 1;
  if (in.scheme == QuantizationScheme::kAwq) {
    const int64_t shift = 4 * awq_position(row % per_word);
    for (int64_t i = 0; i < count; ++i) {
      out[i] =
          static_cast<uint8_t>(word_at(in.words, (first + i) * (in.n / per_word) + row / per_word) >> shift & mask);
    }
    return;
  }
  const bool along_rows = in.scheme == QuantizationScheme::kPacked;
  const int64_t words_of_row = (in.k + per_word - 1) / per_word;
  for (int64_t i = 0; i < count; i += per_word) {
    const int64_t at = (first + i) / per_word;
    uint32_t word = word_at(in.words, along_rows ? row * words_of_row + at : at * in.n + row);
    for (int64_t j = i; j < std::min(count, i + per_word); ++j, word >>= in.bits) {
      out[j] = static_cast<uint8_t>(word & mask);
    }
  }
}

class CodedRows final : public RowSource {
 public:
  explicit CodedRows(CodedWeights weights)
      : in_(std::move(weights)), stored_(fmt::format("{}-bit {}", in_.bits, to_string(in_.scheme))) {}
  int64_t row_bytes() const override {
    return in_.dtype == DType::kI8Channel ? channel_row_bytes(in_.k) : *dtype_bytes(in_.dtype, in_.k);
  }
  int64_t stored_bytes() const override { return std::ssize(in_.words); }
  std::string_view stored() const override { return stored_; }
  void release() const override { release_pages(in_.words); }

  void make_rows(int64_t first, int64_t count, std::byte* out) const override {
    const bool channel = in_.dtype == DType::kI8Channel;
    const int64_t block_bytes = channel ? kBlock : dtype_info(in_.dtype).block_bytes;
    for (int64_t at = 0; at < in_.k; at += kBlock) {  // the rows of a block lie side by side in GPTQ and AWQ
      for (int64_t i = 0; i < count; ++i) {
        std::byte* row = out + i * row_bytes();
        std::array<uint8_t, kBlock> codes;
        const int64_t length = std::min(kBlock, in_.k - at);
        read_codes(in_, first + i, at, length, codes.data());
        if (channel) {
          if (at == 0) std::memcpy(row, &in_.scales[static_cast<size_t>(first + i)], sizeof(float));
          for (int64_t j = 0; j < length; ++j)
            row[4 + at + j] = std::byte(static_cast<uint8_t>(codes[static_cast<size_t>(j)] ^ 0x80));
        } else {
          put_block((first + i) * (in_.k / in_.group_size) + at / in_.group_size, codes,
                    row + at / kBlock * block_bytes);
        }
      }
    }
  }

 private:
  void put_block(int64_t group, const std::array<uint8_t, kBlock>& codes, std::byte* out) const {
    const uint16_t scale = f32_to_f16(in_.scales[static_cast<size_t>(group)]);
    put(out, scale);
    if (in_.dtype == DType::kQ8_0) {
      for (const uint8_t code : codes) put(out, static_cast<uint8_t>(code ^ 0x80));  // u - 128
      return;
    }
    if (in_.dtype == DType::kQ4_1) {
      put(out, f32_to_f16(-f16_to_f32(scale) * static_cast<float>(in_.zeros[static_cast<size_t>(group)])));
    }
    for (size_t i = 0; i < kBlock / 2; ++i) put(out, static_cast<uint8_t>(codes[i] | codes[i + kBlock / 2] << 4));
  }

  CodedWeights in_;
  std::string stored_;
};

}  // namespace

int64_t awq_position(int64_t column) {
  static constexpr std::array<int64_t, 8> kPosition = {0, 4, 1, 5, 2, 6, 3, 7};
  return kPosition[static_cast<size_t>(column)];
}

std::unique_ptr<RowSource> fp8_rows(ByteWeights weights) { return std::make_unique<Fp8Rows>(std::move(weights)); }
std::unique_ptr<RowSource> int8_rows(ByteWeights weights) { return std::make_unique<Int8Rows>(std::move(weights)); }
std::unique_ptr<RowSource> coded_rows(CodedWeights weights) { return std::make_unique<CodedRows>(std::move(weights)); }

}  // namespace lockstep::files
