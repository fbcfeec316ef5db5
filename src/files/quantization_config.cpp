// SPDX-License-Identifier: Apache-2.0
#include "files/quantization_config.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <utility>

#include "files/compressed_tensors.h"
#include "files/mapped_file.h"

namespace lockstep::files {
namespace {

using nlohmann::json;

constexpr int64_t kGroupMultiple = 32;      // the blocks that 4-bit weights are repacked to
constexpr int64_t kLargestGroup = 1 << 20;  // of inputs

Expected<std::optional<int64_t>> first_integer(const JsonFields& fields, const char* name, const char* other) {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto value, fields.integer(name));
  if (value) return value;
  return fields.integer(other);
}

Expected<QuantizationConfig> read_fp8(const JsonFields& fields) {
  QuantizationConfig out{.scheme = QuantizationScheme::kFp8};
  LOCKSTEP_ASSIGN_OR_RETURN(const auto format, fields.string("fmt"));
  if (format && *format != "e4m3") {
    return fields.fail(StatusCode::kUnsupported, "fmt", "only e4m3 is supported, found \"{}\"", printable(*format, 60));
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto block, fields.numbers("weight_block_size"));
  if (!block) return out;
  const auto is_size = [](double x) { return x >= 1 && x <= kLargestGroup && x == static_cast<double>(int64_t(x)); };
  if (block->size() != 2 || !is_size(block->front()) || !is_size(block->back())) {
    return fields.fail(StatusCode::kDataLoss, "weight_block_size", "expected two sizes, rows and columns");
  }
  out.block_rows = static_cast<int64_t>(block->front());
  out.block_columns = static_cast<int64_t>(block->back());
  return out;
}

Expected<QuantizationConfig> read_gptq(const JsonFields& fields) {
  QuantizationConfig out{.scheme = QuantizationScheme::kGptq};
  LOCKSTEP_ASSIGN_OR_RETURN(const auto bits, fields.integer("bits"));
  if (bits != 4 && bits != 8) {
    return fields.fail(StatusCode::kUnsupported, "bits", "gptq with 4 or 8 bits is supported, found {}",
                       bits ? std::to_string(*bits) : "none");
  }
  out.bits = *bits;
  LOCKSTEP_ASSIGN_OR_RETURN(const auto group, fields.integer("group_size"));
  LOCKSTEP_ASSIGN_OR_RETURN(out.group_size, checked_group_size(fields, "group_size", group));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto format, fields.string("checkpoint_format"));
  LOCKSTEP_ASSIGN_OR_RETURN(const auto marlin, fields.boolean("is_marlin_format"));
  const std::string layout = marlin.value_or(false) ? "marlin" : format.value_or("gptq");
  if (layout != "gptq" && layout != "gptq_v2") {
    return fields.fail(StatusCode::kUnsupported, "checkpoint_format", "gptq and gptq_v2 are supported, found \"{}\"",
                       printable(layout, 60));
  }
  out.stored_zero_less_one = layout == "gptq";
  if (const json* dynamic = fields.find("dynamic"); dynamic != nullptr && !dynamic->empty()) {
    return fields.fail(StatusCode::kUnsupported, "dynamic", "settings of their own for some modules are not supported");
  }
  return out;
}

Expected<QuantizationConfig> read_awq(const JsonFields& fields) {
  QuantizationConfig out{.scheme = QuantizationScheme::kAwq, .bits = 4};
  LOCKSTEP_ASSIGN_OR_RETURN(const auto bits, first_integer(fields, "bits", "w_bit"));
  if (bits != 4) {
    return fields.fail(StatusCode::kUnsupported, "bits", "awq with 4 bits is supported, found {}",
                       bits ? std::to_string(*bits) : "none");
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const auto group, first_integer(fields, "group_size", "q_group_size"));
  LOCKSTEP_ASSIGN_OR_RETURN(out.group_size, checked_group_size(fields, "group_size", group));
  LOCKSTEP_ASSIGN_OR_RETURN(auto version, fields.string("version"));
  std::string layout = version.value_or("gemm");
  std::transform(layout.begin(), layout.end(), layout.begin(), [](unsigned char c) { return std::tolower(c); });
  if (layout != "gemm") {
    return fields.fail(StatusCode::kUnsupported, "version", "only gemm is supported, found \"{}\"",
                       printable(*version, 60));
  }
  return out;
}

}  // namespace

std::string_view to_string(QuantizationScheme scheme) {
  switch (scheme) {
    case QuantizationScheme::kNone:
      return "none";
    case QuantizationScheme::kFp8:
      return "fp8";
    case QuantizationScheme::kInt8:
      return "int8";
    case QuantizationScheme::kPacked:
      return "pack-quantized";
    case QuantizationScheme::kGptq:
      return "gptq";
    case QuantizationScheme::kAwq:
      return "awq";
  }
  return "?";
}

Expected<int64_t> checked_group_size(const JsonFields& fields, const char* field, std::optional<int64_t> size) {
  if (size == -1) return 0;
  if (!size || *size < 1 || *size > kLargestGroup) {
    return fields.fail(StatusCode::kDataLoss, field, "expected -1 or 1..{}, found {}", kLargestGroup,
                       size ? std::to_string(*size) : "none");
  }
  if (*size % kGroupMultiple != 0) {
    return fields.fail(StatusCode::kUnsupported, field, "only -1 and multiples of {} are supported, found {}",
                       kGroupMultiple, *size);
  }
  return *size;
}

Expected<QuantizationConfig> read_quantization(const JsonFields& config) {
  for (const char* field : {"quantization_config", "compression_config"}) {
    LOCKSTEP_ASSIGN_OR_RETURN(const auto fields, config.object(field));
    if (!fields) continue;
    LOCKSTEP_ASSIGN_OR_RETURN(const auto method, fields->string("quant_method"));
    if (method == "compressed-tensors") return read_compressed_tensors(*fields);
    if (method == "fp8") return read_fp8(*fields);
    if (method == "gptq") return read_gptq(*fields);
    if (method == "awq") return read_awq(*fields);
    return config.fail(StatusCode::kUnsupported, field,
                       "checkpoints quantised with {} are not supported, only compressed-tensors, fp8, gptq and awq",
                       method ? printable(*method, 60) : "an unnamed method");
  }
  return QuantizationConfig();
}

}  // namespace lockstep::files
