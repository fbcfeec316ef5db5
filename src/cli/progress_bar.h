// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::cli {

/// A bar on stderr for long work: redrawn in place on a terminal at most ten times a second; elsewhere one line every
/// 25 %. Not thread-safe.
class ProgressBar {
 public:
  /// unit_scale: what a step of `done` is divided by for display, with `unit`, e.g. 1e6 and "MB".
  ProgressBar(std::string label, double unit_scale, std::string unit);
  /// done in 0..total.
  void update(int64_t done, int64_t total);
  /// Ends the line with the time taken. Called once.
  void finish();

 private:
  void draw(int64_t done, int64_t total) const;

  std::string label_;
  double unit_scale_;
  std::string unit_;
  bool terminal_;
  int64_t done_ = 0;
  int64_t total_ = 0;
  int last_quarter_ = 0;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

}  // namespace lockstep::cli
