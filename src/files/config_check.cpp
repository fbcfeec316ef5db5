// SPDX-License-Identifier: Apache-2.0
#include "files/config_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace lockstep::files {
namespace {

template <class... Args>
ErrorBuilder damaged(const ModelConfig& config, fmt::format_string<Args...> format, Args&&... args) {
  return error(StatusCode::kDataLoss, "{}: {}", config.source, fmt::format(format, std::forward<Args>(args)...));
}

Status check_sizes(const ModelConfig& c) {
  const std::array<std::pair<const char*, int64_t>, 8> sizes = {{{"vocab_size", c.vocab_size},
                                                                 {"hidden_size", c.hidden_size},
                                                                 {"intermediate_size", c.intermediate_size},
                                                                 {"num_hidden_layers", c.num_layers},
                                                                 {"num_attention_heads", c.num_heads},
                                                                 {"num_key_value_heads", c.num_kv_heads},
                                                                 {"head_dim", c.head_dim},
                                                                 {"max_position_embeddings", c.max_position}}};
  for (const auto& [name, value] : sizes) {
    if (value < 1 || value > std::numeric_limits<int32_t>::max()) {
      return damaged(c, "{}: expected 1..2^31-1, found {}", name, value);
    }
  }
  if (c.num_heads % c.num_kv_heads != 0) {
    return damaged(c, "num_attention_heads {} is no multiple of num_key_value_heads {}", c.num_heads, c.num_kv_heads);
  }
  if (c.head_dim % 2 != 0) return damaged(c, "head_dim: expected an even number, found {}", c.head_dim);
  int64_t attention = 0;
  int64_t kv = 0;
  if (__builtin_mul_overflow(c.num_heads * c.head_dim, c.hidden_size, &attention) ||
      __builtin_mul_overflow(c.num_kv_heads * c.head_dim, 2 * c.num_layers, &kv)) {
    return damaged(c, "the products of heads, head_dim, hidden size and layers are over 2^63-1");
  }
  return {};
}

/// How far a base may be stretched: keeps every intermediate value finite.
constexpr double kMaxFactor = 1e6;

bool is_positive(double value) { return std::isfinite(value) && value > 0.0; }

Status check_dynamic(const ModelConfig& c) {
  if (c.head_dim < 4) return damaged(c, "head_dim: dynamic rope needs at least 4, found {}", c.head_dim);
  if (c.rope.factor > kMaxFactor) {
    return damaged(c, "rope factor: expected at most {:g}, found {}", kMaxFactor, c.rope.factor);
  }
  return {};
}

Status check_factors(const ModelConfig& c, const char* name, const std::vector<float>& factors) {
  if (static_cast<int64_t>(factors.size()) != c.head_dim / 2) {
    return damaged(c, "{}: expected {} numbers (head_dim / 2), found {}", name, c.head_dim / 2, factors.size());
  }
  for (const float factor : factors) {
    if (!is_positive(factor)) return damaged(c, "{}: expected numbers above 0, found {}", name, factor);
  }
  return {};
}

Status check_longrope(const ModelConfig& c) {
  // The attention factor divides by the original length's logarithm.
  if (c.rope.original_max_position == 1) {
    return damaged(c, "original_max_position_embeddings: longrope needs at least 2, found 1");
  }
  LOCKSTEP_RETURN_IF_ERROR(check_factors(c, "short_factor", c.rope.short_factors));
  return check_factors(c, "long_factor", c.rope.long_factors);
}

}  // namespace

int64_t ModelConfig::longest_context() const {
  if (rope.type != RopeType::kDynamic) return max_position;
  const double tokens = std::min(static_cast<double>(max_position) * rope.factor,
                                 static_cast<double>(std::numeric_limits<int32_t>::max()));
  return std::max(max_position, static_cast<int64_t>(tokens));
}

std::string_view to_string(Architecture architecture) {
  switch (architecture) {
    case Architecture::kQwen3:
      return "qwen3";
    case Architecture::kQwen2:
      return "qwen2";
    case Architecture::kLlama:
      return "llama";
  }
  return "unknown";
}

std::optional<Architecture> architecture_of(std::string_view name) {
  for (const Architecture known : {Architecture::kQwen3, Architecture::kQwen2, Architecture::kLlama}) {
    if (to_string(known) == name) return known;
  }
  return std::nullopt;
}

std::string_view supported_architectures() { return "qwen3, qwen2, llama"; }

Status check_rope(const ModelConfig& c) {
  const RopeConfig& rope = c.rope;
  // Above 1: yarn divides by its logarithm.
  if (!std::isfinite(rope.theta) || rope.theta <= 1.0) {
    return damaged(c, "rope_theta: expected a number above 1, found {}", rope.theta);
  }
  if (!std::isfinite(rope.factor) || rope.factor < 1.0) {
    return damaged(c, "rope factor: expected at least 1, found {}", rope.factor);
  }
  if (rope.original_max_position < 0 || rope.original_max_position > std::numeric_limits<int32_t>::max()) {
    return damaged(c, "original_max_position_embeddings: expected 1..2^31-1, found {}", rope.original_max_position);
  }
  if (rope.type == RopeType::kLlama3 && (!is_positive(rope.low_freq_factor) || !std::isfinite(rope.high_freq_factor) ||
                                         rope.high_freq_factor <= rope.low_freq_factor)) {
    return damaged(c, "llama3 rope: expected 0 < low_freq_factor < high_freq_factor, found {} and {}",
                   rope.low_freq_factor, rope.high_freq_factor);
  }
  if (rope.type == RopeType::kYarn &&
      (!is_positive(rope.beta_slow) || !std::isfinite(rope.beta_fast) || rope.beta_fast <= rope.beta_slow)) {
    return damaged(c, "yarn rope: expected 0 < beta_slow < beta_fast, found {} and {}", rope.beta_slow, rope.beta_fast);
  }
  if (rope.type == RopeType::kDynamic) LOCKSTEP_RETURN_IF_ERROR(check_dynamic(c));
  if (rope.type == RopeType::kLongRope) LOCKSTEP_RETURN_IF_ERROR(check_longrope(c));
  if (rope.attention_factor && !is_positive(*rope.attention_factor)) {
    return damaged(c, "attention_factor: expected a number above 0, found {}", *rope.attention_factor);
  }
  if (!std::isfinite(rope.mscale) || rope.mscale < 0.0 || !std::isfinite(rope.mscale_all_dim) ||
      rope.mscale_all_dim < 0.0) {
    return damaged(c, "mscale, mscale_all_dim: expected numbers from 0, found {} and {}", rope.mscale,
                   rope.mscale_all_dim);
  }
  return {};
}

Status finish_sizes(ModelConfig& config, bool qwen3_default) {
  if (config.head_dim == 0) {
    if (qwen3_default && config.architecture == Architecture::kQwen3) {
      config.head_dim = 128;
    } else if (config.num_heads > 0) {
      if (config.hidden_size % config.num_heads != 0) {
        return damaged(config, "hidden_size {} is no multiple of num_attention_heads {}, and head_dim is not given",
                       config.hidden_size, config.num_heads);
      }
      config.head_dim = config.hidden_size / config.num_heads;
    }
  }
  LOCKSTEP_RETURN_IF_ERROR(check_sizes(config));
  if (!is_positive(config.rms_norm_eps)) {
    return damaged(config, "rms_norm_eps: expected a number above 0, found {}", config.rms_norm_eps);
  }
  return {};
}

Status finish_config(ModelConfig& config, bool qwen3_default) {
  LOCKSTEP_RETURN_IF_ERROR(finish_sizes(config, qwen3_default));
  return check_rope(config);
}

}  // namespace lockstep::files
