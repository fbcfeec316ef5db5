// SPDX-License-Identifier: Apache-2.0
#include "engine/kv_sizing.h"

#include <algorithm>

#include "base/log.h"

namespace lockstep::engine {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

double mib(int64_t bytes) { return static_cast<double>(bytes) / kMiB; }

/// Checked before memory is touched: mapping more than there is succeeds, and using it gets the process killed.
Status try_allocate(backend::Backend& backend, const step::KvGeometry& geometry, const MemoryProbe& memory) {
  const int64_t room = memory.limit_bytes() - memory.resident_bytes();
  if (geometry.total_bytes() > room) {
    return error(StatusCode::kResourceExhausted,
                 "{:.1f} MiB are more than the {:.1f} MiB that are left of the memory limit",
                 mib(geometry.total_bytes()), mib(room));
  }
  return backend.allocate_kv(geometry);
}

Expected<step::KvGeometry> allocate_exactly(backend::Backend& backend, const step::KvGeometry& geometry,
                                            const MemoryProbe& memory, std::string_view flag) {
  if (geometry.num_blocks < 1) {
    return error(StatusCode::kInvalidArgument, "{} does not hold one block of {} bytes", flag,
                 geometry.bytes_per_block());
  }
  const Status status = try_allocate(backend, geometry, memory);
  if (!status.ok())
    return unexpected(status.with_context(fmt::format("KV pool of {} blocks: lower {}", geometry.num_blocks, flag)));
  return geometry;
}

Status too_small(const step::KvGeometry& geometry, int64_t least, const EngineOptions& options,
                 const std::string& why) {
  return error(StatusCode::kResourceExhausted,
               "KV pool: one request of {} tokens needs {} blocks ({:.1f} MiB), but {}; lower --max-model-len{}",
               options.max_model_len, least, mib(least * geometry.bytes_per_block()), why,
               options.memory_utilization < 1.0 ? " or raise --memory-utilization" : "");
}

}  // namespace

Expected<step::KvGeometry> allocate_kv_pool(backend::Backend& backend, const EngineOptions& options,
                                            const MemoryProbe& memory) {
  const backend::Capabilities caps = backend.capabilities();
  step::KvGeometry geometry;
  geometry.num_layers = caps.num_layers;
  geometry.num_kv_heads = caps.num_kv_heads;
  geometry.head_dim = caps.head_dim;
  geometry.block_size = options.block_size;
  geometry.dtype = options.kv_dtype;
  if (options.num_kv_blocks > 0) {
    geometry.num_blocks = options.num_kv_blocks;
    return allocate_exactly(backend, geometry, memory, "--num-kv-blocks");
  }
  if (options.kv_cache_memory > 0) {
    geometry.num_blocks = options.kv_cache_memory / geometry.bytes_per_block();
    return allocate_exactly(backend, geometry, memory, "--kv-cache-memory");
  }
  const int64_t least = (options.max_model_len + options.block_size - 1) / options.block_size;
  const auto budget = static_cast<int64_t>(options.memory_utilization * static_cast<double>(memory.limit_bytes())) -
                      memory.resident_bytes();
  geometry.num_blocks = std::min(budget / geometry.bytes_per_block(), least * options.max_num_seqs);
  if (geometry.num_blocks < least) {
    return unexpected(too_small(geometry, least, options,
                                fmt::format("{:.1f} MiB are free for it", mib(std::max<int64_t>(0, budget)))));
  }
  for (;;) {
    const Status status = try_allocate(backend, geometry, memory);
    if (status.ok()) return geometry;
    if (status.code() != StatusCode::kResourceExhausted) return unexpected(status);
    if (geometry.num_blocks == least) return unexpected(too_small(geometry, least, options, status.message()));
    log_warning("KV pool of {} blocks ({:.1f} MiB) failed, trying half: {}", geometry.num_blocks,
                mib(geometry.total_bytes()), status.message());
    geometry.num_blocks = std::max(least, geometry.num_blocks / 2);
  }
}

}  // namespace lockstep::engine
