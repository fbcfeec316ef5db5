// SPDX-License-Identifier: Apache-2.0
// How many prompt tokens may share a step with decode rows, so that the rows' tokens keep coming at an even pace.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::scheduler {

/// The promise: 99 % of the steps with decode rows take at most kPromise times the median step of as many rows without
/// prefill. Two controls, both fed by step times, with no model of what a token costs:
/// - the limit on prompt tokens grows while steps stay within target() times that median, and shrinks with each that
/// does
///   not;
/// - the target falls by a tenth with each step that comes near the promise and rises by a thousandth with any other,
/// so
///   it settles where one step in a hundred does: at kLargestTarget on an even machine, lower on one with other work.
/// Decode rows are told apart by their number's power of two. Without times nothing is limited. O(1), no clock of its
/// own. Not thread-safe.
class PrefillPacer final {
 public:
  static constexpr int64_t kUnlimited = INT64_MAX;
  static constexpr int64_t kLeast = 1;  ///< prefill always goes on
  static constexpr int64_t kFirst = 16;
  static constexpr double kPromise = 3.0;
  static constexpr double kLargestTarget = 2.25;
  static constexpr double kLeastTarget = 1.25;

  /// A step with `decode_rows` rows and `chunk_tokens` tokens of prompts took `wall_s` seconds.
  void observe(int64_t decode_rows, int64_t chunk_tokens, double wall_s);
  /// Tokens of prompts for the next step beside `decode_rows` rows. 0 now and then: a step without prefill has to be
  /// seen.
  int64_t limit(int64_t decode_rows);
  double target() const { return target_; }

 private:
  static constexpr int64_t kLookAgain = 64;  ///< mixed steps until a pure one is wanted again: contexts grow
  static constexpr size_t kClasses = 16;     ///< decode rows 1, 2-3, 4-7, ...

  /// What is known of one number of decode rows.
  struct Pace {
    std::array<double, 9> seconds;  // of the last pure steps, a ring
    size_t num_seconds = 0;
    size_t next = 0;
    double median = 0;        // of these; 0 = none seen
    double tokens = kFirst;   // the limit, before rounding
    int64_t given = 0;        // and as given last
    int64_t mixed_since = 0;  // limits given since a pure step was seen
  };
  static size_t class_of(int64_t decode_rows);
  static void add_pure(Pace& pace, double wall_s);

  std::array<Pace, kClasses> paces_ = {};
  double target_ = kLargestTarget;
  bool timed_ = false;
};

}  // namespace lockstep::scheduler
