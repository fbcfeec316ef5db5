// SPDX-License-Identifier: Apache-2.0
#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace lockstep {

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto rank = static_cast<size_t>(std::lround(share * static_cast<double>(values.size() - 1)));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(rank), values.end());
  return values[rank];
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Interval median_interval(const std::vector<double>& values) {
  if (values.empty()) return {};
  constexpr int kSamples = 2000;
  std::mt19937 random(1);
  std::uniform_int_distribution<size_t> pick(0, values.size() - 1);
  std::vector<double> medians;
  medians.reserve(kSamples);
  std::vector<double> sample(values.size());
  for (int i = 0; i < kSamples; ++i) {
    for (double& one : sample) one = values[pick(random)];
    medians.push_back(median(sample));
  }
  return {percentile(medians, 0.025), median(values), percentile(medians, 0.975)};
}

}  // namespace lockstep
