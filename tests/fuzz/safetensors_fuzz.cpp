// SPDX-License-Identifier: Apache-2.0
// A safetensors file: an error, or tensors that tile the data exactly. The same tensors as those of a quantised model,
// in each scheme: an error, or rows that can be made.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "files/quantized_tensors.h"
#include "files/row_source.h"
#include "files/safetensors.h"

namespace {

using lockstep::files::QuantizationConfig;
using lockstep::files::QuantizationScheme;

const std::array<QuantizationConfig, 8> kConfigs = {{
    {.scheme = QuantizationScheme::kFp8},
    {.scheme = QuantizationScheme::kFp8, .block_rows = 2, .block_columns = 3},
    {.scheme = QuantizationScheme::kInt8},
    {.scheme = QuantizationScheme::kPacked, .bits = 4},
    {.scheme = QuantizationScheme::kPacked, .bits = 8, .group_size = 32},
    {.scheme = QuantizationScheme::kGptq, .bits = 4, .group_size = 32, .stored_zero_less_one = true},
    {.scheme = QuantizationScheme::kGptq, .bits = 8},
    {.scheme = QuantizationScheme::kAwq, .bits = 4, .group_size = 32},
}};

void make_all_rows(const std::vector<lockstep::files::SafetensorsTensor>& tensors, const QuantizationConfig& config) {
  std::vector<lockstep::files::TensorInfo> stored;
  for (const auto& tensor : tensors) {
    stored.push_back(
        {.name = tensor.name, .file = "fuzz", .dtype = tensor.dtype, .shape = tensor.shape, .data = tensor.data});
  }
  const auto made = lockstep::files::make_quantized_tensors(std::move(stored), config);
  if (!made) return;
  for (const auto& tensor : *made) {
    if (!tensor.rows) continue;
    LOCKSTEP_CHECK(tensor.shape.size() == 2);
    std::vector<std::byte> rows(static_cast<size_t>(tensor.shape[0] * tensor.rows->row_bytes()));
    tensor.rows->make_rows(0, tensor.shape[0], rows.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto tensors = lockstep::files::parse_safetensors(bytes, "fuzz.safetensors");
  if (!tensors) return 0;
  size_t total = 0;
  for (const auto& tensor : *tensors) {
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    LOCKSTEP_CHECK(lockstep::dtype_bytes(tensor.dtype, elements) == static_cast<int64_t>(tensor.data.size()));
    LOCKSTEP_CHECK(tensor.data.empty() || (tensor.data.data() >= bytes.data() &&
                                           tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size()));
    total += tensor.data.size();
  }
  LOCKSTEP_CHECK(total <= size);
  for (const QuantizationConfig& config : kConfigs) make_all_rows(*tensors, config);
  return 0;
}
