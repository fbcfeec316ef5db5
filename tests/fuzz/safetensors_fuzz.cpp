// SPDX-License-Identifier: Apache-2.0
// A safetensors file: an error, or tensors that tile the data exactly.
#include <cstdint>
#include <span>

#include "base/check.h"
#include "files/safetensors.h"

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
  return 0;
}
