// SPDX-License-Identifier: Apache-2.0
// On the CPU device memory is host memory: typed views of DeviceViews that have passed validation.
#pragma once

#include <algorithm>
#include <cstdint>

#include "step/device_view.h"
#include "tensor/view.h"

namespace lockstep::backend::cpu_detail {

/// The dtype has been checked. Empty stays empty.
template <class T>
View<T> host_view(const step::DeviceView& view) {
  if (view.empty()) return {};
  auto* data = static_cast<T*>(view.backend_address());
  if (view.rank() == 1) return View<T>(data, {view.extent(0)});
  return View<T>(data, {view.extent(0), view.extent(1)});
}

/// The pair of outputs that holds the best ids of a row, or neither.
struct DeviceTopK {
  const step::DeviceView& ids;
  const step::DeviceView& logprobs;

  int64_t k() const { return ids.empty() ? 0 : ids.extent(1); }
  void store(int64_t row, const int32_t* from_ids, const float* from_logprobs) const {
    std::copy_n(from_ids, k(), host_view<int32_t>(ids).row(row));
    std::copy_n(from_logprobs, k(), host_view<float>(logprobs).row(row));
  }
};

}  // namespace lockstep::backend::cpu_detail
