// SPDX-License-Identifier: Apache-2.0
// Rows of a weight matrix that are made from several stored tensors: quantised safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep::files {

/// Immutable, thread-safe. Reads the mapped file of the checkpoint that owns it.
class RowSource {
 public:
  virtual ~RowSource() = default;
  /// Writes rows first..first+count-1, each row_bytes() long, in the dtype of the tensor (files/checkpoint.h). Rows
  /// that lie side by side in the file are cheapest in runs of 16 from a multiple of 16.
  virtual void make_rows(int64_t first, int64_t count, std::byte* out) const = 0;
  virtual int64_t row_bytes() const = 0;
  /// Bytes of the file that the rows are made of.
  virtual int64_t stored_bytes() const = 0;
  /// What the file holds, for messages: "f8_e4m3", "int8", "4-bit gptq".
  virtual std::string_view stored() const = 0;
  /// Tells the kernel that the stored pages are not needed any more.
  virtual void release() const = 0;
};

}  // namespace lockstep::files
