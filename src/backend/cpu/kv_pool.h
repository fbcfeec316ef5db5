// SPDX-License-Identifier: Apache-2.0
// The paged K/V store of one backend.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "ops/attention.h"
#include "step/step.h"
#include "tensor/buffer.h"

namespace lockstep::backend::cpu_detail {

/// Layout: step::KvGeometry. Pages that nobody has written hold zeros and cost no memory until then.
class KvPool {
 public:
  KvPool() = default;
  /// kResourceExhausted if the address space or the limit of this process does not allow the size.
  static Expected<KvPool> create(const step::KvGeometry& geometry);

  bool empty() const { return layers_.empty(); }
  const step::KvGeometry& geometry() const { return geometry_; }
  std::span<const ops::KvLayer> layers() const { return layers_; }
  int64_t bytes() const { return storage_.bytes(); }

  /// The K (or V) bytes of one block of one layer.
  std::span<std::byte> k_block(int64_t layer, int64_t block) const;
  std::span<std::byte> v_block(int64_t layer, int64_t block) const;
  /// Random finite values of magnitude 0.5 to 1 in all blocks, the same for the same geometry.
  void fill() const;
  /// Block `from` over block `to` in all layers. Both in 0..num_blocks-1.
  void copy_block(int64_t from, int64_t to) const;

 private:
  int64_t block_bytes() const { return geometry_.block_elements() * dtype_info(geometry_.dtype).block_bytes; }

  step::KvGeometry geometry_;
  Buffer storage_;
  std::vector<ops::KvLayer> layers_;
};

}  // namespace lockstep::backend::cpu_detail
