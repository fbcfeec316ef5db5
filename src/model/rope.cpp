// SPDX-License-Identifier: Apache-2.0
#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "ops/context.h"

namespace lockstep::model {
namespace {

using loader::RopeConfig;
using loader::RopeType;

/// theta^(2i / dim), rounded to f32 where transformers' tensors are f32.
std::vector<float> position_frequencies(double theta, int64_t dim) {
  std::vector<float> out(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < out.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dim);
    out[i] = static_cast<float>(kernels::pow_ref(theta, static_cast<double>(exponent)));
  }
  return out;
}

void scale_linear(const RopeConfig& config, std::vector<float>& inverse) {
  for (float& f : inverse) f /= static_cast<float>(config.factor);
}

/// Long wavelengths are divided by the factor, short ones kept, those between are blended.
void scale_llama3(const RopeConfig& config, float original, std::vector<float>& inverse) {
  const auto factor = static_cast<float>(config.factor);
  const auto low = static_cast<float>(config.low_freq_factor);
  const auto high = static_cast<float>(config.high_freq_factor);
  const auto two_pi = static_cast<float>(2.0 * std::numbers::pi);
  for (float& f : inverse) {
    const float wavelength = two_pi / f;
    if (wavelength < original / high) continue;
    if (wavelength > original / low) {
      f /= factor;
      continue;
    }
    const float smooth = (original / wavelength - low) / (high - low);
    f = (1.0f - smooth) * f / factor + smooth * f;
  }
}

/// The dimension whose wavelength makes `rotations` turns in the original length.
double correction_dimension(const RopeConfig& config, double rotations, int64_t dim, double original) {
  return static_cast<double>(dim) * natural_log(original / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * natural_log(config.theta));
}

double floor_of(double x) {
  const auto whole = static_cast<double>(static_cast<int64_t>(x));
  return whole > x ? whole - 1.0 : whole;
}

/// Fast dimensions keep their frequency, slow ones are divided by the factor, a linear ramp between.
void scale_yarn(const RopeConfig& config, int64_t dim, double original, const std::vector<float>& frequencies,
                std::vector<float>& inverse) {
  double low = correction_dimension(config, config.beta_fast, dim, original);
  double high = correction_dimension(config, config.beta_slow, dim, original);
  if (config.truncate) {
    low = floor_of(low);
    high = -floor_of(-high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;  // no division by zero
  for (size_t i = 0; i < inverse.size(); ++i) {
    const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
    const float interpolated = 1.0f / (static_cast<float>(config.factor) * frequencies[i]);
    inverse[i] = interpolated * (1.0f - kept) + inverse[i] * kept;
  }
}

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * natural_log(factor) + 1.0;
}

double yarn_attention_factor(const RopeConfig& config) {
  if (config.attention_factor) return *config.attention_factor;
  if (config.mscale != 0.0 && config.mscale_all_dim != 0.0) {
    return yarn_magnitude(config.factor, config.mscale) / yarn_magnitude(config.factor, config.mscale_all_dim);
  }
  return yarn_magnitude(config.factor, 1.0);
}

/// The base that NTK-aware scaling gives to a sequence of `length` tokens; the config's own up to `original`.
double dynamic_base(const RopeConfig& config, int64_t dim, double original, double length) {
  if (length <= original) return config.theta;
  const double stretch = config.factor * length / original - (config.factor - 1.0);
  const double exponent = static_cast<double>(dim) / static_cast<double>(dim - 2);
  return std::min(config.theta * kernels::pow_ref(stretch, exponent), 1e300);  // finite, as pow_ref needs
}

void scale_longrope(const std::vector<float>& factors, const std::vector<float>& frequencies,
                    std::vector<float>& inverse) {
  for (size_t i = 0; i < inverse.size(); ++i) inverse[i] = 1.0f / (factors[i] * frequencies[i]);
}

double longrope_attention_factor(const RopeConfig& config, double original) {
  if (config.attention_factor) return *config.attention_factor;
  if (config.factor <= 1.0) return 1.0;
  return std::sqrt(1.0 + natural_log(config.factor) / natural_log(original));
}

}  // namespace

double natural_log(double x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh((m - 1) / (m + 1)), whose argument is below 0.172.
  int exponent = 0;
  while (x >= std::numbers::sqrt2) {
    x *= 0.5;
    ++exponent;
  }
  while (x < std::numbers::sqrt2 / 2.0) {
    x *= 2.0;
    --exponent;
  }
  const double t = (x - 1.0) / (x + 1.0);
  double sum = 0.0;
  for (int n = 21; n >= 1; n -= 2) sum = sum * t * t + 1.0 / n;
  return 2.0 * t * sum + exponent * std::numbers::ln2;
}

Rope make_rope(const RopeConfig& config, int64_t head_dim, int64_t max_position, int64_t max_model_len) {
  const auto original =
      static_cast<double>(config.original_max_position > 0 ? config.original_max_position : max_position);
  const auto length = static_cast<double>(max_model_len > 0 ? max_model_len : max_position);
  const bool dynamic = config.type == RopeType::kDynamic;
  const std::vector<float> frequencies =
      position_frequencies(dynamic ? dynamic_base(config, head_dim, original, length) : config.theta, head_dim);
  Rope out;
  for (const float f : frequencies) out.inverse_frequencies.push_back(1.0f / f);
  switch (config.type) {
    case RopeType::kDefault:
    case RopeType::kDynamic:
      break;
    case RopeType::kLinear:
      scale_linear(config, out.inverse_frequencies);
      break;
    case RopeType::kLlama3:
      scale_llama3(config, static_cast<float>(original), out.inverse_frequencies);
      break;
    case RopeType::kYarn:
      scale_yarn(config, head_dim, original, frequencies, out.inverse_frequencies);
      out.scale = static_cast<float>(yarn_attention_factor(config));
      break;
    case RopeType::kLongRope:
      scale_longrope(length > original ? config.long_factors : config.short_factors, frequencies,
                     out.inverse_frequencies);
      out.scale = static_cast<float>(longrope_attention_factor(config, original));
      break;
  }
  const size_t factors = std::min(config.freq_factors.size(), out.inverse_frequencies.size());
  for (size_t i = 0; i < factors; ++i) out.inverse_frequencies[i] /= config.freq_factors[i];
  return out;
}

}  // namespace lockstep::model
