// SPDX-License-Identifier: Apache-2.0
// Scalar functions that run the same code on every machine, whatever table is chosen: double precision inside, where a
// truncated series is far below the rounding of the result.
#include "kernels/ref/scalar.h"
#include "kernels/table.h"

namespace lockstep::kernels {
namespace {

constexpr double kLn2High = 0x1.62e42fefa39efp-1;
constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
constexpr double kRound = 0x1.8p+52;  // adding it leaves the nearest integer in the low bits

inline uint64_t bits_of_f64(double x) { return __builtin_bit_cast(uint64_t, x); }
inline double double_of(uint64_t bits) { return __builtin_bit_cast(double, bits); }

struct Sum {  ///< high + low, |low| <= half an ulp of high
  double high, low;
};

/// ln(x) of a positive normal double: x = 2^n m with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh(s), s = (m-1)/(m+1).
Sum log_f64(double x) {
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdu;
  const auto n = static_cast<int64_t>(bits_of_f64(x) - kSqrtHalf) >> 52;
  const double m = double_of(bits_of_f64(x) - (static_cast<uint64_t>(n) << 52));
  const double s = (m - 1.0) / (m + 1.0);
  const double s_error = fma_f64(-s, m + 1.0, m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 23.0;
  for (int odd = 21; odd >= 3; odd -= 2) p = fma_f64(p, z, 1.0 / odd);
  const double small = fma_f64(2.0 * s * z, p, 2.0 * s_error);
  const auto nd = static_cast<double>(n);
  const double big = nd * kLn2High;
  const double big_error = fma_f64(nd, kLn2High, -big);
  const double first = big + 2.0 * s;  // |big| > |2s|, or big is 0
  const double first_error = (big - first) + 2.0 * s;
  const double rest = small + (first_error + big_error + nd * kLn2Low);
  const double high = first + rest;
  return {high, (first - high) + rest};
}

/// exp(y.high + y.low) for |y| < 700.
double exp_f64(Sum y) {
  const double n = (y.high * (1.0 / kLn2High) + kRound) - kRound;
  const double r = fma_f64(-n, kLn2High, y.high) + fma_f64(-n, kLn2Low, y.low);
  double p = 1.0;
  for (int i = 15; i >= 1; --i) p = fma_f64(p, r / i, 1.0);  // 1 + r/1 (1 + r/2 (1 + ...))
  return p * double_of(static_cast<uint64_t>(static_cast<int64_t>(n) + 1023) << 52);
}

/// sin(r) and cos(r) for |r| <= pi/4 by their series.
double sin_series(double r) {
  const double z = r * r;
  double p = 1.0;
  for (int i = 18; i >= 2; i -= 2) p = fma_f64(p, -z / (i * (i + 1)), 1.0);
  return r * p;
}
double cos_series(double r) {
  const double z = r * r;
  double p = 1.0;
  for (int i = 19; i >= 1; i -= 2) p = fma_f64(p, -z / (i * (i + 1)), 1.0);
  return p;
}

}  // namespace

float exp_ref(float x) { return exp_scalar(x); }

float log_ref(float x) {
  if (!(x > 0.0f)) return float_of(x == 0.0f ? 0xff800000u : 0x7fc00000u);
  if (bits_of(x) == 0x7f800000u) return x;
  return static_cast<float>(log_f64(static_cast<double>(x)).high);
}

void sin_cos_ref(float angle, float* sin, float* cos) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0;
  constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;
  const double x = static_cast<double>(angle);
  const double n = (x * kTwoOverPi + kRound) - kRound;
  const double r = fma_f64(-n, kHalfPiLow, fma_f64(-n, kHalfPiHigh, x));
  const double s = sin_series(r);
  const double c = cos_series(r);
  const auto quadrant = static_cast<int64_t>(n) & 3;
  const double sine = (quadrant & 1) != 0 ? c : s;
  const double cosine = (quadrant & 1) != 0 ? s : c;
  *sin = static_cast<float>((quadrant & 2) != 0 ? -sine : sine);
  *cos = static_cast<float>(quadrant == 1 || quadrant == 2 ? -cosine : cosine);
}

double pow_ref(double base, double exponent) {
  const Sum log = log_f64(base);
  const double high = exponent * log.high;
  return exp_f64({high, fma_f64(exponent, log.high, -high) + exponent * log.low});
}

}  // namespace lockstep::kernels
