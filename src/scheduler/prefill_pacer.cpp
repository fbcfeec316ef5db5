// SPDX-License-Identifier: Apache-2.0
#include "scheduler/prefill_pacer.h"

#include <algorithm>
#include <bit>

namespace lockstep::scheduler {
namespace {

constexpr double kLate = 0.8;  // of the promise: a step that takes more lowers the target
constexpr double kLowerTarget = 0.9;
constexpr double kRaiseTarget = 1.001;
constexpr double kLowerTokens = 0.8;
constexpr double kRaiseTokens = 1.1;
constexpr double kRaiseFarTokens = 1.5;  // where not even half of the target's room is used
constexpr double kMostTokens = 1 << 20;
constexpr int64_t kTile = 16;  // more tokens than this come in whole vector tiles

}  // namespace

size_t PrefillPacer::class_of(int64_t decode_rows) {
  return std::min(kClasses - 1, static_cast<size_t>(std::bit_width(static_cast<uint64_t>(decode_rows))));
}

void PrefillPacer::add_pure(Pace& pace, double wall_s) {
  pace.seconds[pace.next] = wall_s;
  pace.next = (pace.next + 1) % pace.seconds.size();
  pace.num_seconds = std::min(pace.num_seconds + 1, pace.seconds.size());
  auto sorted = pace.seconds;
  const auto middle = static_cast<std::ptrdiff_t>((pace.num_seconds - 1) / 2);
  std::nth_element(sorted.begin(), sorted.begin() + middle,
                   sorted.begin() + static_cast<std::ptrdiff_t>(pace.num_seconds));
  pace.median = sorted[static_cast<size_t>(middle)];
  pace.mixed_since = 0;
}

void PrefillPacer::observe(int64_t decode_rows, int64_t chunk_tokens, double wall_s) {
  if (!(wall_s > 0)) return;
  timed_ = true;
  if (decode_rows == 0) return;
  Pace& pace = paces_[class_of(decode_rows)];
  if (chunk_tokens == 0) return add_pure(pace, wall_s);
  if (pace.median <= 0) return;
  const double ratio = wall_s / pace.median;
  const bool late = ratio > kLate * kPromise;
  target_ = std::clamp(target_ * (late ? kLowerTarget : kRaiseTarget), kLeastTarget, kLargestTarget);
  if (ratio > target_) {
    const double less = kLowerTokens * static_cast<double>(chunk_tokens);
    pace.tokens = std::max(double{kLeast}, std::min(pace.tokens, less));
  } else if (4 * chunk_tokens >= 3 * pace.given) {  // else it says nothing about as many as allowed
    const bool far = ratio < (1 + target_) / 2;
    pace.tokens = std::min(kMostTokens, pace.tokens * (far ? kRaiseFarTokens : kRaiseTokens));
  }
}

int64_t PrefillPacer::limit(int64_t decode_rows) {
  if (!timed_ || decode_rows == 0) return kUnlimited;
  Pace& pace = paces_[class_of(decode_rows)];
  const int64_t mixed = pace.mixed_since++;
  if (mixed >= kLookAgain) pace.mixed_since = 0;
  if (mixed >= kLookAgain || (pace.median <= 0 && mixed == 0)) return 0;
  const auto tokens = static_cast<int64_t>(pace.tokens);
  pace.given = tokens >= kTile ? tokens / kTile * kTile : tokens;
  return pace.given;
}

}  // namespace lockstep::scheduler
