// SPDX-License-Identifier: Apache-2.0
// Fork-join pool: the calling thread works too. Workers spin briefly, then sleep on a futex.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace lockstep::cpu {

/// Non-owning reference to a callable; valid during the call it is passed to. No allocation.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F&& f)  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(&f))), call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(static_cast<Args>(args)...);
        }) {}
  R operator()(Args... args) const { return call_(object_, static_cast<Args>(args)...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

/// Owned by one backend; parallel_for may be called by one thread at a time.
class ThreadPool final {
 public:
  /// threads >= 1 including the caller. Pins worker i to the i-th granted core when threads <= granted cores and `pin`.
  ThreadPool(int threads, bool pin);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const;
  /// Runs body(piece, worker) for piece = 0..pieces-1, each exactly once, worker in 0..size()-1; returns when all are
  /// done. Pieces are taken dynamically, so results must not depend on who runs what. Every worker has MXCSR set to the
  /// default (round to nearest, no FTZ, no DAZ) while it works. Allocates nothing.
  void parallel_for(int64_t pieces, FunctionRef<void(int64_t piece, int worker)> body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Cores that sched_getaffinity grants to this process (and the cgroup CPU quota, rounded up); at least 1.
int available_cores();

}  // namespace lockstep::cpu
