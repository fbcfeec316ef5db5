// SPDX-License-Identifier: Apache-2.0
// config.json: whatever the text, an error or a config that keeps its promises.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "files/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = lockstep::files::parse_model_config(text, "config.json");
  if (!config) {
    LOCKSTEP_CHECK(!config.error().message().empty());
    return 0;
  }
  LOCKSTEP_CHECK(config->num_kv_heads >= 1 && config->num_heads % config->num_kv_heads == 0);
  LOCKSTEP_CHECK(config->head_dim >= 2 && config->head_dim % 2 == 0);
  LOCKSTEP_CHECK(config->vocab_size >= 1 && config->hidden_size >= 1 && config->intermediate_size >= 1);
  LOCKSTEP_CHECK(config->kv_elements_per_token() >= 1);
  LOCKSTEP_CHECK(config->rms_norm_eps > 0.0 && config->rope.theta > 1.0 && config->rope.factor >= 1.0);
  LOCKSTEP_CHECK(config->longest_context() >= config->max_position && config->longest_context() <= INT32_MAX);
  if (config->rope.type == lockstep::files::RopeType::kLongRope) {
    const auto pairs = static_cast<size_t>(config->head_dim / 2);
    LOCKSTEP_CHECK(config->rope.short_factors.size() == pairs && config->rope.long_factors.size() == pairs);
  }
  return 0;
}
