// SPDX-License-Identifier: Apache-2.0
#include "cpu/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <thread>
#include <vector>

#include "base/check.h"
#include "cpu/cores.h"

namespace lockstep::cpu {
namespace {

constexpr uint32_t kDefaultMxcsr = 0x1f80;  // round to nearest, exceptions masked, no FTZ, no DAZ
// Longer than the gaps between the parallel loops of a step, short enough to leave a core to others between steps.
constexpr std::chrono::microseconds kSpin{60};
constexpr int kPausesPerClockRead = 32;

using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == sizeof(uint32_t) && Word::is_always_lock_free, "a futex is a plain 32-bit word");

void futex_wait(Word& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
void futex_wake_all(Word& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

/// Spins until ready() or the time is up; true if ready.
template <class Ready>
bool spin_until(Ready ready) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      if (ready()) return true;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return ready();
}

class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() : saved_(_mm_getcsr()) { _mm_setcsr(kDefaultMxcsr); }
  ~DefaultFloatEnvironment() { _mm_setcsr(saved_); }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  uint32_t saved_;
};

void pin_to_core(std::thread& thread, int core) {
  const size_t count = static_cast<size_t>(core) + 1;
  cpu_set_t* set = CPU_ALLOC(count);
  if (set == nullptr) return;
  const size_t bytes = CPU_ALLOC_SIZE(count);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(static_cast<size_t>(core), bytes, set);
  pthread_setaffinity_np(thread.native_handle(), bytes, set);  // a refusal costs speed only
  CPU_FREE(set);
}

}  // namespace

// A job is the pair (body, pieces) plus `remaining`, the pieces that nobody has taken. Who lowers `remaining` from r >
// 0 owns piece pieces - r, and the job cannot end before that piece is counted in `done`: so a worker that wakes late,
// or not at all, holds nobody up and can never see a job that is over.
struct ThreadPool::Impl {
  explicit Impl(int threads) : size(threads) {}

  void run_worker(int worker);
  void work(int worker);
  bool take_piece(int64_t* piece);
  bool stop_or_work() const { return remaining.load() > 0 || stop.load(); }

  const int size;
  const FunctionRef<void(int64_t, int)>* body = nullptr;
  int64_t pieces = 0;
  alignas(64) std::atomic<int64_t> remaining{0};
  alignas(64) std::atomic<int64_t> done{0};
  alignas(64) Word wake_workers{0};
  Word sleeping_workers{0};
  Word wake_caller{0};
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stop{false};
  std::vector<std::thread> workers;
};

bool ThreadPool::Impl::take_piece(int64_t* piece) {
  int64_t left = remaining.load(std::memory_order_acquire);
  while (left > 0) {
    if (remaining.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel, std::memory_order_acquire)) {
      *piece = pieces - left;
      return true;
    }
  }
  return false;
}

void ThreadPool::Impl::work(int worker) {
  for (int64_t piece = 0; take_piece(&piece);) {
    const int64_t all = pieces;
    (*body)(piece, worker);
    // After this count the job may be over and `pieces` may change: `all` was read before.
    if (done.fetch_add(1) + 1 == all && worker != 0 && caller_sleeps.load()) {
      wake_caller.fetch_add(1);
      futex_wake_all(wake_caller);
    }
  }
}

void ThreadPool::Impl::run_worker(int worker) {
  while (!stop.load()) {
    if (!spin_until([this] { return stop_or_work(); })) {
      const uint32_t seen = wake_workers.load();
      sleeping_workers.fetch_add(1);
      if (!stop_or_work()) futex_wait(wake_workers, seen);
      sleeping_workers.fetch_sub(1);
    }
    const DefaultFloatEnvironment environment;
    work(worker);
  }
}

ThreadPool::ThreadPool(int threads, bool pin) : impl_(std::make_unique<Impl>(threads)) {
  LOCKSTEP_CHECK(threads >= 1);
  const std::vector<int> cores = granted_cores();
  const bool enough_cores = static_cast<size_t>(threads) <= cores.size();
  for (int worker = 1; worker < threads; ++worker) {
    impl_->workers.emplace_back([impl = impl_.get(), worker] { impl->run_worker(worker); });
    if (pin && enough_cores) pin_to_core(impl_->workers.back(), cores[static_cast<size_t>(worker)]);
  }
}

ThreadPool::~ThreadPool() {
  impl_->stop.store(true);
  impl_->wake_workers.fetch_add(1);
  futex_wake_all(impl_->wake_workers);
  for (std::thread& worker : impl_->workers) worker.join();
}

int ThreadPool::size() const { return impl_->size; }

void ThreadPool::parallel_for(int64_t pieces, FunctionRef<void(int64_t piece, int worker)> body) {
  if (pieces <= 0) return;
  const DefaultFloatEnvironment environment;
  if (impl_->size == 1 || pieces == 1) {
    for (int64_t piece = 0; piece < pieces; ++piece) body(piece, 0);
    return;
  }
  Impl& job = *impl_;
  job.body = &body;
  job.pieces = pieces;
  job.done.store(0);
  job.caller_sleeps.store(false);
  job.remaining.store(pieces);
  // Sequentially consistent against run_worker: either the worker sees the pieces or this sees the sleeper.
  if (job.sleeping_workers.load() > 0) {
    job.wake_workers.fetch_add(1);
    futex_wake_all(job.wake_workers);
  }
  job.work(0);
  const auto all_done = [&job, pieces] { return job.done.load() == pieces; };
  if (spin_until(all_done)) return;
  const uint32_t seen = job.wake_caller.load();
  job.caller_sleeps.store(true);
  for (uint32_t value = seen; !all_done(); value = job.wake_caller.load()) futex_wait(job.wake_caller, value);
}

}  // namespace lockstep::cpu
