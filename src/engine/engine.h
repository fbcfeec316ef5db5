// SPDX-License-Identifier: Apache-2.0
// The engine: continuous batching over one backend. step() is schedule -> run -> update; a thread of its own calls it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "base/status.h"
#include "request/request.h"

namespace lockstep::engine {

/// Validated once in create(); immutable afterwards; to_string() is printed at start.
struct EngineOptions {
  int64_t max_num_seqs = 16;                  ///< rows of a step
  int64_t max_num_batched_tokens = 4096;      ///< token budget of a step
  int64_t long_prefill_token_threshold = 2048;  ///< tokens of one prompt in one step at most
  int64_t max_model_len = 0;                  ///< 0: the model's context
  int64_t block_size = 16;                    ///< 16, 32, 64, 128, 256
  DType kv_dtype = DType::kBF16;
  int64_t num_kv_blocks = 0;                  ///< 0: sized from memory
  int64_t kv_cache_memory = 0;                ///< bytes; 0: not given
  double memory_utilization = 0.90;           ///< share of the machine's (or cgroup's) memory that the process may take
  int64_t max_step_width = 1;                 ///< 1..8
  bool enable_chunked_prefill = true;
  bool warmup_full = false;
  int64_t max_queued_requests = 1024;         ///< waiting requests; one more is kResourceExhausted
  std::vector<int32_t> eos_token_ids;         ///< end tokens of the model
};
std::string to_string(const EngineOptions& options);

/// Called on the engine thread for every event of a request, in order; must be quick and not call back into the engine except cancel().
using EventCallback = std::function<void(request::Event)>;

struct EngineStats {
  int64_t num_running = 0;
  int64_t num_waiting = 0;
  int64_t num_blocks = 0;       ///< of the pool
  int64_t num_free_blocks = 0;
  uint64_t num_steps = 0;
  double last_step_wall_s = 0;
  double last_backend_wall_s = 0;
  double total_step_wall_s = 0;
  double total_backend_wall_s = 0;
  int64_t prompt_tokens = 0, generation_tokens = 0;
};

/// A running request. Destroying it cancels the request if it still runs (no event is delivered afterwards). Movable.
class RequestHandle {
 public:
  RequestHandle() = default;
  RequestHandle(RequestHandle&&) noexcept;
  RequestHandle& operator=(RequestHandle&&) noexcept;
  ~RequestHandle();
  uint64_t id() const { return id_; }
  /// Ends the request with kCancelled (unless it has ended).
  void cancel();

 private:
  friend class Engine;
  struct Shared;
  uint64_t id_ = 0;
  std::weak_ptr<Shared> engine_;
};

class Engine final {
 public:
  /// Takes a loaded backend; runs warm-up, sizes and allocates the KV pool (order: load, warm_up, allocate_kv), starts the engine thread.
  static Expected<std::unique_ptr<Engine>> create(std::unique_ptr<backend::Backend> backend, EngineOptions options);
  /// Ends running requests with kCancelled and joins the thread.
  ~Engine();

  /// Thread-safe. Refused at once (kInvalidArgument: empty prompt, past the context, ids outside the vocabulary, can never fit the KV pool; kResourceExhausted:
  /// queue full; kUnavailable: draining). Otherwise exactly one event with a finish reason follows.
  Expected<RequestHandle> submit(request::Request request, EventCallback on_event);

  /// Refuse new requests from now on.
  void drain();
  /// True while the engine loop lives and is not draining.
  bool healthy() const;
  EngineStats stats() const;
  const EngineOptions& options() const;   ///< with 0 values resolved
  const backend::Backend& backend() const;

 private:
  Engine();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::engine
