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
  constexpr int64_t kRounds = 100000;
  const auto run = [&](const PeakLoops& loops) {
    std::atomic<int64_t> flops{0};
    const int64_t pieces = int64_t{pool.size()} * 8;
    const double seconds = seconds_of([&] {
      pool.parallel_for(pieces, [&](int64_t, int) {
        float sink = 0.0f;
        flops.fetch_add(static_cast<int64_t>(loops.fma(kRounds, &sink)));
        if (sink == -1.0f) flops.fetch_add(1);  // never: keeps the loop
      });
    });
    return static_cast<double>(flops.load()) / seconds * 1e-9;
  };
  double best = 0.0;
  const auto deadline = std::chrono::steady_clock::now() + kBudget;
  do {
    best = std::max(best, run(avx2_peak_loops()));
    if (features.avx512) best = std::max(best, run(avx512_peak_loops()));
  } while (std::chrono::steady_clock::now() < deadline);
  return best;
}

}  // namespace lockstep::cpu
