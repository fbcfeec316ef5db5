// SPDX-License-Identifier: Apache-2.0
// Everything about a model that is text: tokenizer, chat template, end tokens, sampling defaults. Shared by cli and
// server.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "chat/chat_template.h"
#include "nlohmann/json.hpp"
#include "text/output_stream.h"
#include "tokenizer/tokenizer.h"

namespace lockstep::text {

struct TextModelOptions {
  std::filesystem::path tokenizer;  ///< where tokenizer and chat template come from; empty: the model's own
  bool parse_special_in_content =
      false;  ///< control tokens in messages become control tokens, as HF does (api.md, decision 1)
};

/// generation_config.json's values; absent = not set there.
struct SamplingDefaults {
  std::optional<double> temperature, top_p, min_p, repetition_penalty;
  std::optional<int64_t> top_k;
};

/// A chat request before any normalisation.
struct ChatInput {
  nlohmann::ordered_json messages;
  nlohmann::ordered_json tools;  ///< null: none
  bool add_generation_prompt = true;
  bool continue_final_message = false;
  nlohmann::ordered_json chat_template_kwargs;  ///< an object, or null
};

/// Immutable; every method is safe from many threads at once.
class TextModel final {
 public:
  /// `model` is a directory or a .gguf file. A chat template that can't be parsed is an error here. Errors name file
  /// and field.
  static Expected<std::shared_ptr<const TextModel>> load(const std::filesystem::path& model,
                                                         const TextModelOptions& options = {});

  /// A raw prompt: control tokens in it are parsed. `add_special_tokens` lets the tokenizer put its BOS in front, if it
  /// has one.
  Expected<std::vector<int32_t>> encode_prompt(std::string_view text, bool add_special_tokens = true) const;
  /// normalise -> render -> encode, once; strings of the request stay literal text. kInvalidArgument if there is no
  /// chat template.
  Expected<std::vector<int32_t>> encode_chat(ChatInput input) const;

  bool has_chat_template() const { return chat_template_ != nullptr; }
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
    return tokenizer_->decode(ids, skip_special_tokens);
  }
  /// Raw bytes of a token; may be a part of a character.
  std::string token_bytes(int32_t id) const { return tokenizer_->token_bytes(id); }
  /// The token as text: bytes that are not UTF-8 by themselves become U+FFFD. Special tokens have their text too.
  std::string token_text(int32_t id) const { return tokenizer_->decode(std::span(&id, 1), false); }
  OutputStream make_stream(OutputOptions options) const { return {tokenizer_, std::move(options)}; }

  const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer() const { return tokenizer_; }
  /// For EngineOptions::eos_token_ids: those of generation_config.json, else of config.json or the GGUF, and the
  /// tokenizer's own. Ascending.
  const std::vector<int32_t>& end_token_ids() const { return end_token_ids_; }
  const SamplingDefaults& sampling_defaults() const { return defaults_; }

 private:
  TextModel() = default;
  Status load_model_files(const std::filesystem::path& model);

  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  std::shared_ptr<const chat::ChatTemplate> chat_template_;  // nullptr: none
  bool parse_special_in_content_ = false;
  std::vector<int32_t> end_token_ids_;
  SamplingDefaults defaults_;
};

}  // namespace lockstep::text
