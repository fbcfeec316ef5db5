// SPDX-License-Identifier: Apache-2.0
// View: a pointer with a shape and strides; owns nothing. The batch-shaped arguments of a step are views of exactly the
// rows in use over storage that has the capacity.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "base/check.h"

namespace lockstep {

/// Up to three dimensions, strides in elements, the last dimension contiguous. Copyable, trivially cheap. An empty view
/// (data() == nullptr, rank 0) means "not asked for".
template <class T>
class View {
 public:
  View() = default;
  /// A dense view. shape must have 1..3 dimensions, none negative.
  View(T* data, std::initializer_list<int64_t> shape) : data_(data), rank_(static_cast<int>(shape.size())) {
    LOCKSTEP_CHECK(rank_ >= 1 && rank_ <= 3);
    int i = 0;
    for (int64_t extent : shape) shape_[static_cast<size_t>(i++)] = extent;
    int64_t stride = 1;
    for (int d = rank_ - 1; d >= 0; --d) {
      strides_[static_cast<size_t>(d)] = stride;
      stride *= shape_[static_cast<size_t>(d)];
    }
  }
  /// View<T> -> View<const T>.
  template <class U, class = std::enable_if_t<std::is_same_v<const U, T>>>
  View(const View<U>& other)  // NOLINT(google-explicit-constructor)
      : data_(other.data()), rank_(other.rank()), shape_(other.shape()), strides_(other.strides()) {}

  T* data() const { return data_; }
  bool empty() const { return data_ == nullptr; }
  int rank() const { return rank_; }
  int64_t extent(int dimension) const { return shape_[static_cast<size_t>(dimension)]; }
  int64_t stride(int dimension) const { return strides_[static_cast<size_t>(dimension)]; }
  const std::array<int64_t, 3>& shape() const { return shape_; }
  const std::array<int64_t, 3>& strides() const { return strides_; }
  /// Elements of the view (0 for an empty one).
  int64_t size() const {
    if (rank_ == 0) return 0;
    int64_t n = 1;
    for (int d = 0; d < rank_; ++d) n *= shape_[static_cast<size_t>(d)];
    return n;
  }
  /// The same storage narrowed to the first `rows` of dimension 0. rows in 0..extent(0).
  View prefix(int64_t rows) const { return slice(0, rows); }
  /// Rows first .. first+rows-1 of dimension 0.
  View slice(int64_t first, int64_t rows) const {
    if (empty()) return {};
    LOCKSTEP_CHECK(first >= 0 && rows >= 0 && first + rows <= shape_[0]);
    View out = *this;
    out.data_ += first * strides_[0];
    out.shape_[0] = rows;
    return out;
  }
  /// Columns first .. first+count-1 of a rank 2 view; the row stride stays.
  View columns(int64_t first, int64_t count) const {
    if (empty()) return {};
    LOCKSTEP_CHECK(rank_ == 2 && first >= 0 && count >= 0 && first + count <= shape_[1]);
    View out = *this;
    out.data_ += first;
    out.shape_[1] = count;
    return out;
  }
  /// Pointer to row i of dimension 0. Unchecked.
  T* row(int64_t i) const { return data_ + i * strides_[0]; }
  T& operator()(int64_t i) const { return data_[i * strides_[0]]; }
  T& operator()(int64_t i, int64_t j) const { return data_[i * strides_[0] + j * strides_[1]]; }

 private:
  T* data_ = nullptr;
  int rank_ = 0;
  std::array<int64_t, 3> shape_ = {};
  std::array<int64_t, 3> strides_ = {};
};

}  // namespace lockstep
