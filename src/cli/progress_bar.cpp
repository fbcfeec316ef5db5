// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_bar.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

namespace lockstep::cli {

ProgressBar::ProgressBar(std::string label, double unit_scale, std::string unit)
    : label_(std::move(label)),
      unit_scale_(unit_scale),
      unit_(std::move(unit)),
      terminal_(::isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()) {}

void ProgressBar::update(int64_t done, int64_t total) {
  done_ = done;
  total_ = total;
  if (total <= 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (terminal_) {
    if (done < total && now - drawn_ < std::chrono::milliseconds(100)) return;
    drawn_ = now;
    draw(done, total);
    return;
  }
  const int quarter = static_cast<int>(4 * done / total);
  if (quarter > last_quarter_ && quarter < 4) {
    last_quarter_ = quarter;
    draw(done, total);
  }
}

void ProgressBar::finish() {
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  std::fprintf(stderr, "%s%s %.0f %s in %.1f s\n", terminal_ ? "\r\033[K" : "", label_.c_str(),
               static_cast<double>(total_) / unit_scale_, unit_.c_str(), seconds);
}

void ProgressBar::draw(int64_t done, int64_t total) const {
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(kWidth * done / total);
  const std::string bar =
      std::string(static_cast<size_t>(filled), '#') + std::string(static_cast<size_t>(kWidth - filled), '.');
  std::fprintf(stderr, "%s%s [%s] %3d%% of %.0f %s%s", terminal_ ? "\r" : "", label_.c_str(), bar.c_str(),
               static_cast<int>(100 * done / total), static_cast<double>(total) / unit_scale_, unit_.c_str(),
               terminal_ ? "" : "\n");
  std::fflush(stderr);
}

}  // namespace lockstep::cli
