// SPDX-License-Identifier: Apache-2.0
#include "cpu/measure.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cpu/features.h"
#include "cpu/peak_loops.h"

namespace lockstep::cpu {
namespace {

constexpr int64_t kPieceBytes = 4 << 20;
constexpr int64_t kBufferBytes = 256 << 20;  // beyond the last-level caches that a virtual machine is given a share of
constexpr std::chrono::milliseconds kBudget{300};

double seconds_of(FunctionRef<void()> work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// 1e9 operations a second of all threads, best of many runs; work(rounds) returns the operations that it did.
double best_rate(ThreadPool& pool, FunctionRef<double(int64_t rounds)> work) {
  constexpr int64_t kRounds = 20000;  // a run of half a millisecond: some are not interrupted
  double best = 0.0;
  const auto deadline = std::chrono::steady_clock::now() + kBudget / 2;
  do {
    std::atomic<int64_t> done{0};
    const double seconds = seconds_of([&] {
      pool.parallel_for(int64_t{pool.size()} * 8,
                        [&](int64_t, int) { done.fetch_add(static_cast<int64_t>(work(kRounds))); });
    });
    best = std::max(best, static_cast<double>(done.load()) / seconds * 1e-9);
  } while (std::chrono::steady_clock::now() < deadline);
  return best;
}

struct FreeMemory {
  void operator()(std::byte* p) const { std::free(p); }
};

}  // namespace

Expected<double> measure_read_gbps(ThreadPool& pool) {
  const Features features = detect_features();
  if (!features.avx2) return 0.0;
  const PeakLoops loops = features.avx512 ? avx512_peak_loops() : avx2_peak_loops();
  const std::unique_ptr<std::byte, FreeMemory> data(static_cast<std::byte*>(std::aligned_alloc(4096, kBufferBytes)));
  if (!data)
    return error(StatusCode::kResourceExhausted, "no memory for the {} MiB buffer of the bandwidth measurement",
                 kBufferBytes >> 20);
  std::byte* const base = data.get();
  constexpr int64_t kPieces = kBufferBytes / kPieceBytes;
  pool.parallel_for(kPieces, [base](int64_t piece, int) { std::memset(base + piece * kPieceBytes, 1, kPieceBytes); });
  struct Pattern {
    int streams;
    int64_t ahead;
  };
  constexpr Pattern kPatterns[] = {{1, 0}, {1, 1024}, {1, 4096}, {4, 512}, {4, 2048}};
  std::atomic<uint64_t> sink{0};
  double best = 0.0;
  const auto deadline = std::chrono::steady_clock::now() + kBudget;
  do {
    for (const Pattern pattern : kPatterns) {
      const double seconds = seconds_of([&] {
        pool.parallel_for(kPieces, [&](int64_t piece, int) {
          sink.fetch_xor(loops.read(base + piece * kPieceBytes, kPieceBytes, pattern.streams, pattern.ahead));
        });
      });
      best = std::max(best, static_cast<double>(kBufferBytes) / seconds * 1e-9);
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return best;
}

double measure_fma_gflops(ThreadPool& pool) {
  const Features features = detect_features();
  if (!features.avx2 || !features.fma) return 0.0;
  const auto best_of = [&pool](const PeakLoops& loops) {
    return best_rate(pool, [&loops](int64_t rounds) {
      float sink = 0.0f;
      const double done = loops.fma(rounds, &sink);
      return sink == -1.0f ? done + 1 : done;  // never: keeps the loop
    });
  };
  const double narrow = best_of(avx2_peak_loops());
  return features.avx512 ? std::max(narrow, best_of(avx512_peak_loops())) : narrow;
}

double measure_int8_gops(ThreadPool& pool) {
  const Features features = detect_features();
  if (!features.avx2) return 0.0;
  const PeakLoops loops = features.avx512_vnni ? avx512_vnni_peak_loops() : avx2_peak_loops();
  return best_rate(pool, [&loops](int64_t rounds) {
    int32_t sink = 0;
    const double done = loops.int8(rounds, &sink);
    return sink == -1 ? done + 1 : done;
  });
}

}  // namespace lockstep::cpu
