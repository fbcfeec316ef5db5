// SPDX-License-Identifier: Apache-2.0
// The engine's thread and the queues to it.
#include "engine/engine.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engine/core.h"
#include "engine/kv_sizing.h"
#include "engine/options.h"
#include "sampling/sampling_batch.h"

namespace lockstep::engine {
namespace {

struct Submission {
  uint64_t id = 0;
  request::Request request;
  uint64_t seed = 0;
  EventCallback on_event;
};

/// What other threads want of the engine thread. Outlives the engine in the hands of request handles.
struct Inbox {
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<Submission> submissions;
  std::vector<uint64_t> cancels;
  bool flush = false;
  bool stop = false;
  // Of the engine, at the last look of its thread; together with `submissions` what a full queue is measured by.
  int64_t num_unfinished = 0;
  int64_t waiting_tokens = 0;
  int64_t submitted_tokens = 0;  // of `submissions`
  int64_t num_refused = 0;
  EngineStats stats;

  bool has_news() const { return stop || flush || !submissions.empty() || !cancels.empty(); }
};

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

/// Between a handle and the engine thread. Recursive, because a callback may drop its own handle.
struct RequestHandle::Shared {
  std::recursive_mutex mutex;
  EventCallback on_event;
  bool closed = false;
  std::shared_ptr<Inbox> inbox;

  void deliver(request::Event event) {
    const std::lock_guard lock(mutex);
    if (closed) return;
    const bool last = event.finish_reason != request::FinishReason::kNone;
    on_event(std::move(event));
    if (!last) return;
    closed = true;
    on_event = nullptr;
  }
};

RequestHandle::RequestHandle(RequestHandle&& other) noexcept
    : id_(std::exchange(other.id_, 0)), shared_(std::move(other.shared_)) {}

RequestHandle& RequestHandle::operator=(RequestHandle&& other) noexcept {
  if (this != &other) {
    release();
    id_ = std::exchange(other.id_, 0);
    shared_ = std::move(other.shared_);
  }
  return *this;
}

RequestHandle::~RequestHandle() { release(); }

void RequestHandle::cancel() {
  if (!shared_) return;
  {
    const std::lock_guard lock(shared_->inbox->mutex);
    shared_->inbox->cancels.push_back(id_);
  }
  shared_->inbox->wake.notify_one();
}

void RequestHandle::release() {
  if (!shared_) return;
  bool running = false;
  {
    const std::lock_guard lock(shared_->mutex);
    running = !std::exchange(shared_->closed, true);
  }
  if (running) cancel();
  shared_.reset();
}

struct Engine::Impl {
  std::unique_ptr<backend::Backend> backend;
  EngineOptions options;
  scheduler::SchedulerOptions limits;
  int64_t vocab_size = 0;
  std::unique_ptr<Core> core;
  std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
  std::atomic<uint64_t> next_id{1};
  std::atomic<bool> draining{false};
  std::atomic<bool> alive{false};
  std::thread thread;

  Status check(const request::Request& request) const;
  void loop();
  bool take_news(std::vector<Submission>& submissions, std::vector<uint64_t>& cancels);
  void publish_stats();
};

Engine::Engine() : impl_(std::make_unique<Impl>()) {}

Expected<std::unique_ptr<Engine>> Engine::create(std::unique_ptr<backend::Backend> backend, EngineOptions options,
                                                 EngineHooks hooks) {
  const backend::Capabilities capabilities = backend->capabilities();
  LOCKSTEP_ASSIGN_OR_RETURN(options, resolve(std::move(options), capabilities));
  if (!hooks.memory) hooks.memory = std::make_shared<SystemMemoryProbe>();
  if (!hooks.clock) hooks.clock = steady_seconds;

  backend::StepShape shape;
  shape.max_num_seqs = options.max_num_seqs;
  shape.max_num_batched_tokens = options.max_num_batched_tokens;
  shape.max_step_width = options.max_step_width;
  shape.max_model_len = options.max_model_len;
  shape.block_size = options.block_size;
  shape.kv_dtype = options.kv_dtype;
  shape.full_warm_up = options.warmup_full;
  LOCKSTEP_RETURN_IF_ERROR(backend->warm_up(shape));
  LOCKSTEP_ASSIGN_OR_RETURN(const step::KvGeometry kv, allocate_kv_pool(*backend, options, *hooks.memory));
  options.num_kv_blocks = kv.num_blocks;
  options.kv_cache_memory = kv.total_bytes();
  log_info("KV pool: {} blocks of {} tokens = {} tokens, {:.1f} MiB", kv.num_blocks, kv.block_size,
           kv.num_blocks * kv.block_size, static_cast<double>(kv.total_bytes()) / (1024.0 * 1024.0));

  std::unique_ptr<Engine> engine(new Engine());
  Impl& impl = *engine->impl_;
  impl.options = std::move(options);
  impl.limits = scheduler_options(impl.options);
  impl.vocab_size = capabilities.vocab_size;
  impl.backend = std::move(backend);
  LOCKSTEP_ASSIGN_OR_RETURN(impl.core, Core::create(*impl.backend, impl.options, std::move(hooks.clock)));
  impl.publish_stats();
  impl.alive = true;
  impl.thread = std::thread([&impl] { impl.loop(); });
  return engine;
}

Engine::~Engine() {
  if (!impl_->thread.joinable()) return;
  {
    const std::lock_guard lock(impl_->inbox->mutex);
    impl_->inbox->stop = true;
  }
  impl_->inbox->wake.notify_one();
  impl_->thread.join();
  impl_->core.reset();  // its device buffers go before the backend
}

Status Engine::Impl::check(const request::Request& request) const {
  LOCKSTEP_RETURN_IF_ERROR(scheduler::Scheduler::check_fits(request, limits));
  for (int32_t id : request.prompt_token_ids) {
    if (id < 0 || id >= vocab_size)
      return invalid_argument("the prompt has token id {}, must be in [0, {})", id, vocab_size);
  }
  if (request.timeout_s && !(*request.timeout_s > 0)) {
    return invalid_argument("timeout_s is {}, must be greater than 0", *request.timeout_s);
  }
  return request::validate(request.sampling, vocab_size);
}

Expected<RequestHandle> Engine::submit(request::Request request, EventCallback on_event) {
  if (impl_->draining) return error(StatusCode::kUnavailable, "the server is shutting down");
  LOCKSTEP_RETURN_IF_ERROR(impl_->check(request));
  sampling::normalise(request.sampling);
  Submission submission;
  submission.id = impl_->next_id.fetch_add(1);
  submission.seed = request.sampling.seed ? *request.sampling.seed
                                          : (uint64_t{std::random_device{}()} << 32) | std::random_device{}();
  RequestHandle handle;
  handle.id_ = submission.id;
  handle.shared_ = std::make_shared<RequestHandle::Shared>();
  handle.shared_->on_event = std::move(on_event);
  handle.shared_->inbox = impl_->inbox;
  submission.on_event = [shared = handle.shared_](request::Event event) { shared->deliver(std::move(event)); };
  submission.request = std::move(request);

  const auto tokens = static_cast<int64_t>(submission.request.prompt_token_ids.size());
  const EngineOptions& options = impl_->options;
  Inbox& inbox = *impl_->inbox;
  {
    const std::lock_guard lock(inbox.mutex);
    const auto unfinished = inbox.num_unfinished + static_cast<int64_t>(inbox.submissions.size());
    const int64_t waiting_tokens = inbox.waiting_tokens + inbox.submitted_tokens;
    const bool full = unfinished >= options.max_num_seqs + options.max_queued_requests;
    const bool long_queue =
        options.max_queued_tokens > 0 && waiting_tokens > 0 && waiting_tokens + tokens > options.max_queued_tokens;
    if (full || long_queue) {
      ++inbox.num_refused;
      handle.shared_->closed = true;
      return full ? error(StatusCode::kResourceExhausted, "{} requests are queued already", options.max_queued_requests)
                  : error(StatusCode::kResourceExhausted, "{} prompt tokens are queued already, at most {}",
                          waiting_tokens, options.max_queued_tokens);
    }
    inbox.submitted_tokens += tokens;
    inbox.submissions.push_back(std::move(submission));
  }
  inbox.wake.notify_one();
  return handle;
}

// False: time to stop. Waits only if there is nothing to do.
bool Engine::Impl::take_news(std::vector<Submission>& submissions, std::vector<uint64_t>& cancels) {
  submissions.clear();
  cancels.clear();
  const bool busy = core->busy();
  std::unique_lock lock(inbox->mutex);
  if (!busy) inbox->wake.wait(lock, [this] { return inbox->has_news(); });
  std::swap(submissions, inbox->submissions);
  std::swap(cancels, inbox->cancels);
  inbox->num_unfinished += static_cast<int64_t>(submissions.size());
  inbox->waiting_tokens += std::exchange(inbox->submitted_tokens, 0);
  if (std::exchange(inbox->flush, false)) core->flush_prefix_cache();
  return !inbox->stop;
}

void Engine::Impl::loop() {
  std::vector<Submission> submissions;
  std::vector<uint64_t> cancels;
  bool was_busy = false;
  for (bool running = true; running;) {
    running = take_news(submissions, cancels);
    for (Submission& submission : submissions) {
      core->add(submission.id, std::move(submission.request), submission.seed, std::move(submission.on_event));
    }
    for (uint64_t id : cancels) core->finish(id, request::FinishReason::kCancelled);
    if (running) core->step();
    if (!running) core->shut_down();
    const bool busy = core->busy();
    if (was_busy && !busy) {
      if (const Status status = core->check(); !status.ok()) log_error("integrity: {}", status.to_string());
    }
    was_busy = busy;
    publish_stats();
  }
  alive = false;
}

void Engine::Impl::publish_stats() {
  const EngineStats stats = core->stats();
  const std::lock_guard lock(inbox->mutex);
  inbox->stats = stats;
  inbox->num_unfinished = stats.num_running + stats.num_waiting;
  inbox->waiting_tokens = stats.num_waiting_tokens;
}

void Engine::flush_prefix_cache() {
  {
    const std::lock_guard lock(impl_->inbox->mutex);
    impl_->inbox->flush = true;
  }
  impl_->inbox->wake.notify_one();
}

void Engine::drain() { impl_->draining = true; }

bool Engine::healthy() const { return impl_->alive && !impl_->draining; }

EngineStats Engine::stats() const {
  const std::lock_guard lock(impl_->inbox->mutex);
  EngineStats stats = impl_->inbox->stats;
  stats.num_waiting += static_cast<int64_t>(impl_->inbox->submissions.size());
  stats.num_waiting_tokens += impl_->inbox->submitted_tokens;
  stats.num_refused = impl_->inbox->num_refused;
  return stats;
}

const EngineOptions& Engine::options() const { return impl_->options; }
const backend::Backend& Engine::backend() const { return *impl_->backend; }

}  // namespace lockstep::engine
