// SPDX-License-Identifier: Apache-2.0
// A GGUF file through the whole way of loading: container, config, tensor names, dequantised values. The bytes are
// offered as a file in memory, because Checkpoint maps files.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "files/checkpoint.h"
#include "files/dequantize.h"
#include "files/gguf_parse.h"

namespace {

void check_values(const lockstep::files::TensorInfo& tensor) {
  const auto& info = lockstep::dtype_info(tensor.dtype);
  if (!lockstep::files::can_dequantize(tensor.dtype)) return;
  const size_t blocks = tensor.data.size() / static_cast<size_t>(info.block_bytes);
  std::vector<float> values(blocks * static_cast<size_t>(info.block_elements));
  LOCKSTEP_CHECK(lockstep::files::dequantize(tensor.dtype, tensor.data, values).ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Once in place, where the address sanitizer sees every read past the end.
  if (!lockstep::files::parse_gguf(std::as_bytes(std::span(data, size)), "fuzz.gguf")) return 0;
  const int file = ::memfd_create("fuzz.gguf", MFD_CLOEXEC);
  LOCKSTEP_CHECK(file >= 0 && ::write(file, data, size) == static_cast<ssize_t>(size));
  {
    const auto checkpoint = lockstep::files::Checkpoint::open("/proc/self/fd/" + std::to_string(file));
    if (checkpoint) {
      for (const auto& tensor : (*checkpoint)->tensors()) check_values(tensor);
    }
  }
  ::close(file);
  return 0;
}
