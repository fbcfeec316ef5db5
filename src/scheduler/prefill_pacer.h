// SPDX-License-Identifier: Apache-2.0
// How many prompt tokens may share a step with decode rows, so that the rows' tokens keep coming at an even pace.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::scheduler {

/// Learns from step times what a decode step takes without prefill and what a prompt token adds, and allows as many
/// tokens as keep a mixed step within kTarget times the decode step (the promise is 3 times, at the 99th percentile).
/// Without times nothing is limited. O(1), no clock of its own. Not thread-safe.
class PrefillPacer final {
 public:
  static constexpr int64_t kUnlimited = INT64_MAX;
  static constexpr int64_t kLeast = 16;  ///< prefill always goes on, by one tile of rows at least

  /// A step with `decode_rows` rows and `chunk_tokens` tokens of prompts took `wall_s` seconds.
  void observe(int64_t decode_rows, int64_t chunk_tokens, double wall_s);
  /// Tokens of prompts for the next step beside `decode_rows` rows. 0 now and then: a step without prefill has to be
  /// seen.
  int64_t limit(int64_t decode_rows);

 private:
  static constexpr double kTarget = 2.25;
  static constexpr int64_t kLookAgain = 64;  ///< mixed steps until a pure one is wanted again: contexts grow
  static constexpr size_t kClasses = 16;     ///< decode rows 1, 2-3, 4-7, ...

  struct DecodeTime {
    double seconds = 0;       // 0 = never seen
    int64_t mixed_since = 0;  // limits given since it was seen
  };
  static size_t class_of(int64_t decode_rows);

  std::array<DecodeTime, kClasses> decode_;
  double seconds_per_token_ = 0;  // 0 = never seen
  bool timed_ = false;
};

}  // namespace lockstep::scheduler
