// SPDX-License-Identifier: Apache-2.0
// What a model is, read from config.json (older style and transformers 5) or from GGUF metadata, checked once,
// immutable after.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "files/gguf.h"
#include "files/quantization_config.h"

namespace lockstep::files {

enum class Architecture { kQwen3, kQwen2, kLlama };
std::string_view to_string(Architecture architecture);

/// kDynamic and kLongRope depend on the context that is served (docs/numerics.md).
enum class RopeType { kDefault, kLinear, kLlama3, kYarn, kDynamic, kLongRope };

/// Fields as transformers' rope_parameters / rope_scaling. Unused ones keep their defaults.
struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double factor = 1.0;
  int64_t original_max_position = 0;               ///< 0: max_position_embeddings
  double low_freq_factor = 1.0;                    ///< llama3
  double high_freq_factor = 4.0;                   ///< llama3
  double beta_fast = 32.0;                         ///< yarn
  double beta_slow = 1.0;                          ///< yarn
  std::optional<double> attention_factor;          ///< absent: yarn 0.1 ln(factor) + 1 (with mscale/mscale_all_dim as
                                                   ///< transformers), longrope sqrt(1 + ln(factor) / ln(original))
  double mscale = 0.0;                             ///< yarn; 0: absent
  double mscale_all_dim = 0.0;                     ///< yarn; 0: absent
  bool truncate = true;                            ///< yarn
  std::vector<float> short_factors, long_factors;  ///< longrope; head_dim / 2 values above 0 each
  /// GGUF's rope_freqs.weight, head_dim / 2 values; empty: none. Inverse frequency i is divided by value i (f32
  /// division). llama3 scaling arrives this way from GGUF, with type kDefault.
  std::vector<float> freq_factors;
};

struct ModelConfig {
  Architecture architecture = Architecture::kQwen3;
  std::string source;  ///< the file it came from, for messages
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;  ///< divides num_heads
  int64_t head_dim = 0;      ///< given, or 128 for Qwen3, else hidden_size / num_heads; even
  int64_t max_position = 0;  ///< the model's full context in tokens, served unless told otherwise
  double rms_norm_eps = 1e-6;
  RopeConfig rope;
  bool tie_word_embeddings = false;
  bool attention_bias = false;      ///< biases on q, k, v (Qwen2: true)
  bool attention_o_bias = false;    ///< bias on o (Llama with attention_bias)
  bool qk_norm = false;             ///< Qwen3
  QuantizationConfig quantization;  ///< of safetensors
  std::string dtype;                ///< as the file says, "" if absent; informative
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;  ///< of config.json or GGUF; generation_config.json's replace them when present

  /// The most tokens that may be served: max_position, times the factor for dynamic rope; at most 2^31-1.
  int64_t longest_context() const;
  int64_t kv_elements_per_token() const { return 2 * num_layers * num_kv_heads * head_dim; }
};

/// generation_config.json; absent fields are nullopt.
struct GenerationConfig {
  std::optional<bool> do_sample;
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;
  std::vector<int32_t> eos_token_ids;
  std::optional<int32_t> bos_token_id;
};

/// Errors name file, field, expected and found. Limits: every size is in 1..2^31-1 and products fit int64.
Expected<ModelConfig> parse_model_config(std::string_view json, std::string source);
Expected<ModelConfig> load_model_config(const std::filesystem::path& config_json);
Expected<ModelConfig> model_config_from_gguf(const GgufFile& file);
/// A missing file gives an empty GenerationConfig.
Expected<GenerationConfig> load_generation_config(const std::filesystem::path& generation_config_json);

}  // namespace lockstep::files
