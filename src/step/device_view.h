// SPDX-License-Identifier: Apache-2.0
// Memory of a backend, opaque to everybody else: on the CPU it is host memory, elsewhere it is not, so nobody may read
// it by accident. Host code gets values through Backend::read.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

#include "tensor/dtype.h"
#include "tensor/view.h"

namespace lockstep::step {

/// A typed, dense view of device memory with 1..2 dimensions; owns nothing. Empty = "not asked for".
class DeviceView {
 public:
  DeviceView() = default;
  DeviceView(void* address, DType dtype, std::initializer_list<int64_t> shape) : address_(address), dtype_(dtype) {
    for (int64_t extent : shape) shape_[static_cast<size_t>(rank_++)] = extent;
  }
  bool empty() const { return address_ == nullptr; }
  DType dtype() const { return dtype_; }
  int rank() const { return rank_; }
  int64_t extent(int dimension) const { return shape_[static_cast<size_t>(dimension)]; }
  int64_t elements() const {
    int64_t n = rank_ == 0 ? 0 : 1;
    for (int d = 0; d < rank_; ++d) n *= shape_[static_cast<size_t>(d)];
    return n;
  }
  /// Rows 0..rows-1 of dimension 0. rows in 0..extent(0).
  DeviceView prefix(int64_t rows) const { return slice(0, rows); }
  /// Rows first..first+rows-1 of dimension 0.
  DeviceView slice(int64_t first, int64_t rows) const {
    if (empty()) return {};
    LOCKSTEP_CHECK(first >= 0 && rows >= 0 && first + rows <= shape_[0]);
    DeviceView out = *this;
    const int64_t row_bytes = (rank_ == 2 ? shape_[1] : 1) * dtype_info(dtype_).block_bytes;
    out.address_ = static_cast<std::byte*>(address_) + first * row_bytes;
    out.shape_[0] = rows;
    return out;
  }

  /// The same dense storage as [rows, columns]; rows * columns must be elements().
  DeviceView reshaped(int64_t rows, int64_t columns) const {
    if (empty()) return {};
    LOCKSTEP_CHECK(rows >= 0 && columns >= 0 && rows * columns == elements());
    return DeviceView(address_, dtype_, {rows, columns});
  }

  /// For backends only: the address in the backend's own address space.
  void* backend_address() const { return address_; }

 private:
  void* address_ = nullptr;
  DType dtype_ = DType::kF32;
  int rank_ = 0;
  std::array<int64_t, 2> shape_ = {};
};

}  // namespace lockstep::step
