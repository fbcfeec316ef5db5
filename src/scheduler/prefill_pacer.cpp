// SPDX-License-Identifier: Apache-2.0
#include "scheduler/prefill_pacer.h"

#include <algorithm>
#include <bit>

namespace lockstep::scheduler {
namespace {

// Moves an estimate towards a value; one outlier can't do more than double or halve it.
void learn(double& estimate, double value, double weight) {
  if (estimate <= 0) {
    estimate = value;
    return;
  }
  estimate += weight * (std::clamp(value, estimate / 2, estimate * 2) - estimate);
}

}  // namespace

size_t PrefillPacer::class_of(int64_t decode_rows) {
  return std::min(kClasses - 1, static_cast<size_t>(std::bit_width(static_cast<uint64_t>(decode_rows))));
}

void PrefillPacer::observe(int64_t decode_rows, int64_t chunk_tokens, double wall_s) {
  if (!(wall_s > 0)) return;
  timed_ = true;
  DecodeTime& decode = decode_[class_of(decode_rows)];
  if (chunk_tokens == 0) {
    learn(decode.seconds, wall_s, 0.2);
    decode.mixed_since = 0;
    return;
  }
  if (decode_rows > 0 && decode.seconds <= 0) return;
  const double added = (wall_s - (decode_rows > 0 ? decode.seconds : 0.0)) / static_cast<double>(chunk_tokens);
  // Up at once, down slowly: a step that is too long is what must not happen.
  if (added > 0) learn(seconds_per_token_, added, added > seconds_per_token_ ? 0.7 : 0.1);
}

int64_t PrefillPacer::limit(int64_t decode_rows) {
  if (!timed_ || decode_rows == 0) return kUnlimited;
  DecodeTime& decode = decode_[class_of(decode_rows)];
  const int64_t mixed = decode.mixed_since++;
  if (mixed >= kLookAgain) decode.mixed_since = 0;
  if (mixed >= kLookAgain || (decode.seconds <= 0 && mixed == 0)) return 0;
  if (decode.seconds <= 0 || seconds_per_token_ <= 0) return kLeast;
  const double tokens = (kTarget - 1) * decode.seconds / seconds_per_token_;
  return std::max(kLeast, static_cast<int64_t>(std::min(tokens, 1e9)) / kLeast * kLeast);
}

}  // namespace lockstep::scheduler
