// SPDX-License-Identifier: Apache-2.0
// The engine: continuous batching over one backend. step() is schedule -> run -> update; a thread of its own calls it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/status.h"
#include "engine/memory_probe.h"
#include "request/request.h"

namespace lockstep::engine {

/// One step, as seen by the engine thread. The engine's own work in it is host_s(); with asynchronous scheduling it
/// runs while the backend is busy.
struct StepReport {
  uint64_t step_id = 0;
  int64_t rows = 0;
  int64_t decode_rows = 0;
  int64_t tokens = 0;
  double step_wall_s = 0;     ///< planning, staging, running, updating, delivering
  double backend_wall_s = 0;  ///< that the backend took for the step
  double wait_s = 0;          ///< of step_wall_s, blocked until the backend was done
  double host_s() const { return step_wall_s - wait_s; }
};

enum class SchedulingPolicy { kFcfs, kPriority };

/// Validated once in create(); immutable afterwards; to_string() is printed at start.
struct EngineOptions {
  int64_t max_num_seqs = 16;                    ///< rows of a step
  int64_t max_num_batched_tokens = 4096;        ///< token budget of a step
  int64_t long_prefill_token_threshold = 2048;  ///< tokens of one prompt in one step at most
  int64_t max_model_len = 0;                    ///< 0: the model's context
  int64_t block_size = 16;                      ///< 16, 32, 64, 128, 256
  DType kv_dtype = DType::kBF16;
  int64_t num_kv_blocks = 0;         ///< 0: sized from memory
  int64_t kv_cache_memory = 0;       ///< bytes; 0: not given
  double memory_utilization = 0.90;  ///< share of the machine's (or cgroup's) memory that the process may take
  int64_t max_step_width = 1;        ///< 1..8
  bool enable_chunked_prefill = true;
  bool warmup_full = false;
  int64_t max_queued_requests = 1024;  ///< requests beyond max_num_seqs; one more is kResourceExhausted
  int64_t max_queued_tokens = 0;       ///< prompt tokens of waiting requests beyond which none is taken; 0: no limit
  bool enable_prefix_caching = true;
  bool adaptive_budget =
      false;  ///< fewer prompt tokens beside decode rows, so that these keep an even pace: for serving
  bool async_scheduling = true;  ///< prepare the next step while the backend runs
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  std::vector<int32_t> eos_token_ids;              ///< end tokens of the model
  std::function<void(const StepReport&)> on_step;  ///< called on the engine thread after each step; may be empty
};
std::string to_string(const EngineOptions& options);

/// Called on the engine thread for every event of a request, in order; must be quick and not call back into the engine
/// except cancel().
using EventCallback = std::function<void(request::Event)>;

/// How many tokens the steps had.
struct StepTokens {
  static constexpr std::array<int64_t, 13> kBounds = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
  std::array<uint64_t, kBounds.size() + 1> counts{};  ///< steps up to each bound, above the one before; then all larger
  int64_t sum = 0;
  void add(int64_t tokens);
};

struct EngineStats {
  int64_t num_running = 0;
  int64_t num_waiting = 0;
  int64_t num_blocks = 0;  ///< of the pool
  int64_t num_free_blocks = 0;
  uint64_t num_steps = 0;
  double last_step_wall_s = 0;
  double last_backend_wall_s = 0;
  double total_step_wall_s = 0;
  double total_backend_wall_s = 0;
  int64_t prompt_tokens = 0, generation_tokens = 0;
  int64_t num_cached_blocks = 0;  ///< of num_free_blocks: a prefix can still be found there
  int64_t num_waiting_tokens = 0;
  int64_t num_preemptions = 0;
  int64_t prefix_cache_queries = 0;  ///< prompt tokens
  int64_t prefix_cache_hits = 0;     ///< of these, found
  int64_t num_refused = 0;           ///< requests that found the queue full
  StepTokens step_tokens;
};

/// A running request. Destroying it cancels the request if it still runs (no event is delivered afterwards). Movable.
class RequestHandle {
 public:
  struct Shared;  ///< private to engine.cpp
  RequestHandle() = default;
  RequestHandle(RequestHandle&&) noexcept;
  RequestHandle& operator=(RequestHandle&&) noexcept;
  ~RequestHandle();
  uint64_t id() const { return id_; }
  /// Ends the request with kCancelled (unless it has ended).
  void cancel();

 private:
  friend class Engine;
  void release();

  uint64_t id_ = 0;
  std::shared_ptr<Shared> shared_;
};

/// What tests replace.
struct EngineHooks {
  std::shared_ptr<const MemoryProbe> memory;  ///< null: the machine's
  std::function<double()> clock;              ///< seconds, steady; empty: the machine's
};

class Engine final {
 public:
  /// Takes a loaded backend; runs warm-up, sizes and allocates the KV pool (order: load, warm_up, allocate_kv), starts
  /// the engine thread.
  static Expected<std::unique_ptr<Engine>> create(std::unique_ptr<backend::Backend> backend, EngineOptions options,
                                                  EngineHooks hooks = {});
  /// Ends running requests with kCancelled and joins the thread.
  ~Engine();

  /// Thread-safe. Refused at once (kInvalidArgument: empty prompt, past the context, ids outside the vocabulary, can
  /// never fit the KV pool; kResourceExhausted: queue full; kUnavailable: draining). Otherwise exactly one event with a
  /// finish reason follows.
  Expected<RequestHandle> submit(request::Request request, EventCallback on_event);

  /// Forgets all cached prefixes, before the next step.
  void flush_prefix_cache();
  /// Refuse new requests from now on.
  void drain();
  /// True while the engine loop lives and is not draining.
  bool healthy() const;
  EngineStats stats() const;
  const EngineOptions& options() const;  ///< with 0 values resolved
  const backend::Backend& backend() const;

 private:
  Engine();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::engine
