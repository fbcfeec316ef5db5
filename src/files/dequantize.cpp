// SPDX-License-Identifier: Apache-2.0
#include "files/dequantize.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/half.h"

namespace lockstep::files {
namespace {

// Decodes one block at `in` to its elements at `out`.
using BlockDecoder = void (*)(const uint8_t* in, float* out);

uint16_t read_u16(const uint8_t* in) { return static_cast<uint16_t>(in[0] | (in[1] << 8)); }
float read_f16(const uint8_t* in) { return f16_to_f32(read_u16(in)); }
int as_int8(uint8_t byte) { return static_cast<int8_t>(byte); }
float to_float(int value) { return static_cast<float>(value); }

// The 4-bit codes of IQ4_NL and IQ4_XS stand for these.
constexpr std::array<int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

void decode_f32(const uint8_t* in, float* out) { std::memcpy(out, in, sizeof *out); }
void decode_f16(const uint8_t* in, float* out) { *out = read_f16(in); }
void decode_bf16(const uint8_t* in, float* out) { *out = bf16_to_f32(read_u16(in)); }

// In the 32-element blocks with 4 low bits, byte i holds element i (low half) and i + 16 (high half).

void decode_q4_0(const uint8_t* in, float* out) {
  const float d = read_f16(in);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * to_float((in[2 + i] & 15) - 8);
    out[i + 16] = d * to_float((in[2 + i] >> 4) - 8);
  }
}

void decode_q4_1(const uint8_t* in, float* out) {
  const float d = read_f16(in);
  const float m = read_f16(in + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * to_float(in[4 + i] & 15) + m;
    out[i + 16] = d * to_float(in[4 + i] >> 4) + m;
  }
}

/// Bit 5 of element i is bit i of the 32 bits at `high`.
int fifth_bit(const uint8_t* high, int i) { return ((high[i / 8] >> (i % 8)) & 1) << 4; }

void decode_q5_0(const uint8_t* in, float* out) {
  const float d = read_f16(in);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * to_float(((in[6 + i] & 15) | fifth_bit(in + 2, i)) - 16);
    out[i + 16] = d * to_float(((in[6 + i] >> 4) | fifth_bit(in + 2, i + 16)) - 16);
  }
}

void decode_q5_1(const uint8_t* in, float* out) {
  const float d = read_f16(in);
  const float m = read_f16(in + 2);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * to_float((in[8 + i] & 15) | fifth_bit(in + 4, i)) + m;
    out[i + 16] = d * to_float((in[8 + i] >> 4) | fifth_bit(in + 4, i + 16)) + m;
  }
}

void decode_q8_0(const uint8_t* in, float* out) {
  const float d = read_f16(in);
  for (int i = 0; i < 32; ++i) out[i] = to_float(as_int8(in[2 + i])) * d;
}

void decode_iq4_nl(const uint8_t* in, float* out) {
  const float d = read_f16(in);
  for (int i = 0; i < 16; ++i) {
    out[i] = d * to_float(kIq4Values[in[2 + i] & 15]);
    out[i + 16] = d * to_float(kIq4Values[in[2 + i] >> 4]);
  }
}

// Super-blocks of 256 elements. 2-bit codes: byte 32 h + l holds elements 128 h + 32 s + l at shift 2 s.

/// scales[16] (low half: scale, high half: minimum), codes[64], d, dmin.
void decode_q2_k(const uint8_t* in, float* out) {
  const uint8_t* codes = in + 16;
  const float d = read_f16(in + 80);
  const float dmin = read_f16(in + 82);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * to_float(in[group] & 15);
    const float minimum = dmin * to_float(in[group] >> 4);
    for (int i = 0; i < 16; ++i) {
      const int element = group * 16 + i;
      const int code = codes[element / 128 * 32 + element % 32] >> (element % 128 / 32 * 2) & 3;
      out[element] = scale * to_float(code) - minimum;
    }
  }
}

/// high[32] (bit g of byte l: element 32 g + l; 0 means minus 4), codes[64], scales[12] (16 of 6 bits), d.
void decode_q3_k(const uint8_t* in, float* out) {
  const uint8_t* codes = in + 32;
  const uint8_t* scales = in + 96;
  const float d = read_f16(in + 108);
  for (int group = 0; group < 16; ++group) {
    const int low = scales[group % 8] >> (group / 8 * 4) & 15;
    const int high = scales[8 + group % 4] >> (group / 4 * 2) & 3;
    const float scale = d * to_float((low | high << 4) - 32);
    for (int i = 0; i < 16; ++i) {
      const int element = group * 16 + i;
      const int code = codes[element / 128 * 32 + element % 32] >> (element % 128 / 32 * 2) & 3;
      const int offset = (in[element % 32] >> (element / 32) & 1) != 0 ? 0 : 4;
      out[element] = scale * to_float(code - offset);
    }
  }
}

struct ScaleMin {
  int scale;
  int minimum;
};

/// Group 0..7 of the 12 bytes that pack eight 6-bit scales and minimums in Q4_K and Q5_K.
ScaleMin unpack_scale_min(const uint8_t* packed, int group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  const uint8_t low_halves = packed[group + 4];
  return {(low_halves & 15) | (packed[group - 4] >> 6) << 4, (low_halves >> 4) | (packed[group] >> 6) << 4};
}

/// d, dmin, packed scales[12], codes[128]: byte 32 h + l holds elements 64 h + l (low half) and 64 h + 32 + l.
void decode_q4_k(const uint8_t* in, float* out) {
  const float d = read_f16(in);
  const float dmin = read_f16(in + 2);
  for (int group = 0; group < 8; ++group) {
    const ScaleMin packed = unpack_scale_min(in + 4, group);
    const float scale = d * to_float(packed.scale);
    const float minimum = dmin * to_float(packed.minimum);
    const uint8_t* codes = in + 16 + ptrdiff_t{group / 2} * 32;
    for (int i = 0; i < 32; ++i) {
      out[group * 32 + i] = scale * to_float(codes[i] >> (group % 2 * 4) & 15) - minimum;
    }
  }
}

/// As Q4_K with a fifth bit between scales and codes: bit g of byte l of high[32] is element 32 g + l's.
void decode_q5_k(const uint8_t* in, float* out) {
  const float d = read_f16(in);
  const float dmin = read_f16(in + 2);
  const uint8_t* high = in + 16;
  for (int group = 0; group < 8; ++group) {
    const ScaleMin packed = unpack_scale_min(in + 4, group);
    const float scale = d * to_float(packed.scale);
    const float minimum = dmin * to_float(packed.minimum);
    const uint8_t* codes = in + 48 + ptrdiff_t{group / 2} * 32;
    for (int i = 0; i < 32; ++i) {
      const int code = (codes[i] >> (group % 2 * 4) & 15) | (high[i] >> group & 1) << 4;
      out[group * 32 + i] = scale * to_float(code) - minimum;
    }
  }
}

/// low[128] (byte 64 h + l: elements 128 h + l and 128 h + 64 + l), high[64] (2-bit codes), int8 scales[16], d.
void decode_q6_k(const uint8_t* in, float* out) {
  const uint8_t* high = in + 128;
  const uint8_t* scales = in + 192;
  const float d = read_f16(in + 208);
  for (int group = 0; group < 16; ++group) {
    const float scale = d * to_float(as_int8(scales[group]));
    for (int i = 0; i < 16; ++i) {
      const int element = group * 16 + i;
      const int low = in[element / 128 * 64 + element % 64] >> (element % 128 / 64 * 4) & 15;
      const int top = high[element / 128 * 32 + element % 32] >> (element % 128 / 32 * 2) & 3;
      out[element] = scale * to_float((low | top << 4) - 32);
    }
  }
}

/// d, high scale bits (2 a group), low scale bits[4] (4 a group), codes[128] of 32-element groups as in IQ4_NL.
void decode_iq4_xs(const uint8_t* in, float* out) {
  const float d = read_f16(in);
  const int scales_high = read_u16(in + 2);
  for (int group = 0; group < 8; ++group) {
    const int low = in[4 + group / 2] >> (group % 2 * 4) & 15;
    const float scale = d * to_float((low | (scales_high >> (2 * group) & 3) << 4) - 32);
    const uint8_t* codes = in + 8 + ptrdiff_t{group} * 16;
    for (int i = 0; i < 16; ++i) {
      out[group * 32 + i] = scale * to_float(kIq4Values[codes[i] & 15]);
      out[group * 32 + 16 + i] = scale * to_float(kIq4Values[codes[i] >> 4]);
    }
  }
}

BlockDecoder decoder_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return decode_f32;
    case DType::kF16:
      return decode_f16;
    case DType::kBF16:
      return decode_bf16;
    case DType::kQ4_0:
      return decode_q4_0;
    case DType::kQ4_1:
      return decode_q4_1;
    case DType::kQ5_0:
      return decode_q5_0;
    case DType::kQ5_1:
      return decode_q5_1;
    case DType::kQ8_0:
      return decode_q8_0;
    case DType::kQ2_K:
      return decode_q2_k;
    case DType::kQ3_K:
      return decode_q3_k;
    case DType::kQ4_K:
      return decode_q4_k;
    case DType::kQ5_K:
      return decode_q5_k;
    case DType::kQ6_K:
      return decode_q6_k;
    case DType::kIQ4_NL:
      return decode_iq4_nl;
    case DType::kIQ4_XS:
      return decode_iq4_xs;
    case DType::kI8:
    case DType::kU8:
    case DType::kI32:
    case DType::kI64:
    case DType::kF8E4M3:
    case DType::kBool:
    case DType::kI8Channel:
    case DType::kI8ChannelA8:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

bool can_dequantize(DType dtype) { return decoder_of(dtype) != nullptr; }

Status dequantize(DType dtype, std::span<const std::byte> data, std::span<float> out) {
  const BlockDecoder decode = decoder_of(dtype);
  if (decode == nullptr) return error(StatusCode::kUnsupported, "{} values can't be read as f32", to_string(dtype));
  const auto bytes = dtype_bytes(dtype, static_cast<int64_t>(out.size()));
  if (!bytes || static_cast<uint64_t>(*bytes) != data.size()) {
    return invalid_argument("dequantize: {} elements of {} do not take {} bytes", out.size(), to_string(dtype),
                            data.size());
  }
  const DTypeInfo& info = dtype_info(dtype);
  const auto* in = reinterpret_cast<const uint8_t*>(data.data());
  for (size_t done = 0; done < out.size(); done += static_cast<size_t>(info.block_elements)) {
    decode(in, out.data() + done);
    in += info.block_bytes;
  }
  return {};
}

}  // namespace lockstep::files
