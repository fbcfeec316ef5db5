// SPDX-License-Identifier: Apache-2.0
#include "files/gguf_names.h"

#include <array>
#include <charconv>
#include <optional>

#include "files/mapped_file.h"

namespace lockstep::files {
namespace {

struct NamePair {
  std::string_view gguf;
  std::string_view hugging_face;
};

constexpr std::array<NamePair, 4> kGlobal = {{{"token_embd.weight", "model.embed_tokens.weight"},
                                              {"output_norm.weight", "model.norm.weight"},
                                              {"output.weight", "lm_head.weight"},
                                              {"rope_freqs.weight", "rope_freqs.weight"}}};

// After "blk.N." and "model.layers.N.".
constexpr std::array<NamePair, 15> kInLayer = {{{"attn_norm.weight", "input_layernorm.weight"},
                                                {"attn_q.weight", "self_attn.q_proj.weight"},
                                                {"attn_q.bias", "self_attn.q_proj.bias"},
                                                {"attn_k.weight", "self_attn.k_proj.weight"},
                                                {"attn_k.bias", "self_attn.k_proj.bias"},
                                                {"attn_v.weight", "self_attn.v_proj.weight"},
                                                {"attn_v.bias", "self_attn.v_proj.bias"},
                                                {"attn_output.weight", "self_attn.o_proj.weight"},
                                                {"attn_output.bias", "self_attn.o_proj.bias"},
                                                {"attn_q_norm.weight", "self_attn.q_norm.weight"},
                                                {"attn_k_norm.weight", "self_attn.k_norm.weight"},
                                                {"ffn_norm.weight", "post_attention_layernorm.weight"},
                                                {"ffn_gate.weight", "mlp.gate_proj.weight"},
                                                {"ffn_up.weight", "mlp.up_proj.weight"},
                                                {"ffn_down.weight", "mlp.down_proj.weight"}}};

constexpr std::string_view kLayerPrefix = "blk.";
constexpr std::string_view kRotaryTable = "attn_rot_embd";  // files of 2023

template <size_t N>
std::optional<std::string_view> lookup(const std::array<NamePair, N>& table, std::string_view name) {
  for (const NamePair& pair : table) {
    if (pair.gguf == name) return pair.hugging_face;
  }
  return std::nullopt;
}

/// Tables of longrope, see RopeConfig.
bool is_longrope_table(const ModelConfig& config, std::string_view name) {
  return config.rope.type == RopeType::kLongRope &&
         (name == "rope_factors_short.weight" || name == "rope_factors_long.weight");
}

/// Whether the architecture has this part of a layer. `rest` is a GGUF name after "blk.N.".
bool has_part(const ModelConfig& config, std::string_view rest) {
  if (rest == "attn_output.bias") return config.attention_o_bias;
  if (rest.ends_with(".bias")) return config.attention_bias;
  if (rest == "attn_q_norm.weight" || rest == "attn_k_norm.weight") return config.qk_norm;
  return true;
}

/// llama files store the rows of q and k for rope on neighbouring pairs.
int64_t interleaved_heads(const ModelConfig& config, std::string_view rest) {
  if (config.architecture != Architecture::kLlama) return 0;
  if (rest == "attn_q.weight" || rest == "attn_q.bias") return config.num_heads;
  if (rest == "attn_k.weight" || rest == "attn_k.bias") return config.num_kv_heads;
  return 0;
}

std::optional<GgufName> map_layer_name(std::string_view name, const ModelConfig& config) {
  const char* digits = name.data() + kLayerPrefix.size();
  const char* end = name.data() + name.size();
  int64_t layer = -1;
  const auto [after, code] = std::from_chars(digits, end, layer);
  if (code != std::errc() || after == end || *after != '.' || layer < 0 || layer >= config.num_layers) {
    return std::nullopt;
  }
  // "blk.00." would make two names of one.
  if (*digits == '0' && after - digits > 1) return std::nullopt;
  const std::string_view rest(after + 1, static_cast<size_t>(end - after - 1));
  if (rest.starts_with(kRotaryTable)) return GgufName{std::string(name)};
  const auto mapped = lookup(kInLayer, rest);
  if (!mapped || !has_part(config, rest)) return std::nullopt;
  return GgufName{fmt::format("model.layers.{}.{}", layer, *mapped), interleaved_heads(config, rest)};
}

}  // namespace

Expected<GgufName> map_gguf_name(std::string_view name, const ModelConfig& config, const std::string& file) {
  if (const auto global = lookup(kGlobal, name)) return GgufName{std::string(*global)};
  if (is_longrope_table(config, name)) return GgufName{std::string(name)};
  std::optional<GgufName> mapped;
  if (name.starts_with(kLayerPrefix)) mapped = map_layer_name(name, config);
  if (mapped) return *std::move(mapped);
  return error(StatusCode::kUnsupported, "{}: tensor {} is not part of a {} model with {} layers",
               printable(file, 4096), printable(name), to_string(config.architecture), config.num_layers);
}

}  // namespace lockstep::files
