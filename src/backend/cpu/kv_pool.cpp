// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/kv_pool.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/random.h"

namespace lockstep::backend::cpu_detail {

Expected<KvPool> KvPool::create(const step::KvGeometry& geometry) {
  KvPool pool;
  pool.geometry_ = geometry;
  LOCKSTEP_ASSIGN_OR_RETURN(pool.storage_, Buffer::allocate(geometry.total_bytes(),
                                                            fmt::format("KV pool of {} blocks", geometry.num_blocks)));
  const int64_t layer_bytes = geometry.num_blocks * pool.block_bytes();
  std::byte* at = pool.storage_.data();
  for (int64_t i = 0; i < geometry.num_layers; ++i, at += 2 * layer_bytes) {
    pool.layers_.push_back({.k = at, .v = at + layer_bytes});
  }
  return pool;
}

std::span<std::byte> KvPool::k_block(int64_t layer, int64_t block) const {
  return {layers_[static_cast<size_t>(layer)].k + block * block_bytes(), static_cast<size_t>(block_bytes())};
}

std::span<std::byte> KvPool::v_block(int64_t layer, int64_t block) const {
  return {layers_[static_cast<size_t>(layer)].v + block * block_bytes(), static_cast<size_t>(block_bytes())};
}

void KvPool::fill() const {
  // Two bf16 to a word, sign and mantissa random; the word is such a value as f32 too.
  std::vector<uint32_t> pattern(1 << 14);
  for (size_t i = 0; i < pattern.size(); ++i) {
    pattern[i] = 0x3f003f00u | (philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {0, 0})[0] & 0x807f807fu);
  }
  const auto whole = static_cast<int64_t>(pattern.size() * sizeof(uint32_t));
  for (int64_t at = 0; at < storage_.bytes(); at += whole) {
    std::memcpy(storage_.data() + at, pattern.data(), static_cast<size_t>(std::min(whole, storage_.bytes() - at)));
  }
}

void KvPool::copy_block(int64_t from, int64_t to) const {
  if (from == to) return;
  const auto bytes = static_cast<size_t>(block_bytes());
  for (int64_t layer = 0; layer < geometry_.num_layers; ++layer) {
    std::memcpy(k_block(layer, to).data(), k_block(layer, from).data(), bytes);
    std::memcpy(v_block(layer, to).data(), v_block(layer, from).data(), bytes);
  }
}

}  // namespace lockstep::backend::cpu_detail
