// SPDX-License-Identifier: Apache-2.0
// Figures of repeated measurements.
#pragma once

#include <vector>

namespace lockstep {

/// The value at `share` (0..1) of the sorted values, nearest rank; 0 if there are none.
double percentile(std::vector<double> values, double share);
/// The middle value, or the mean of the two in the middle; 0 if there are none.
double median(std::vector<double> values);

struct Interval {
  double low = 0, median = 0, high = 0;
};
/// The median and its 95% interval by bootstrap (2000 samples, percentile method: Efron, "Bootstrap methods", 1979).
/// The same values give the same interval.
Interval median_interval(const std::vector<double>& values);

}  // namespace lockstep
