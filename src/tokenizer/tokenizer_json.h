// SPDX-License-Identifier: Apache-2.0
// Parts of Hugging Face's tokenizer.json. Format: the sources of github.com/huggingface/tokenizers 0.23.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/json_fields.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer_impl.h"

namespace lockstep::tokenizer {

/// "normalizer"; null gives none.
Status read_normalizer(const Field& field, NormalizerList& out);

/// "pre_tokenizer"; null gives none. `byte_level` is set if pieces are to be taken as bytes.
Status read_pre_tokenizer(const Field& field, PreTokenizerList& out, bool& byte_level);

/// A "Split" or "Replace" pattern: {"String": ...} or {"Regex": ...}.
struct Pattern {
  std::string text;
  bool is_regex = false;
};
Expected<Pattern> read_pattern(const Field& field);

/// How the text of a token becomes bytes of the decoded text.
struct DecoderRules {
  bool byte_level = false;
  bool byte_fallback = false;
  std::vector<std::pair<std::string, std::string>> replacements;
  DecodeStart start = DecodeStart::kKeep;

  /// `spelling`: valid UTF-8.
  std::string bytes_of(std::string_view spelling) const;
};
Expected<DecoderRules> read_decoder(const Field& field);

/// "post_processor": the ids it puts around a text.
Status read_post_processor(const Field& field, std::vector<int32_t>& prefix, std::vector<int32_t>& suffix);

/// "model": sets impl.model and impl.vocabulary.
Status read_model(const Field& field, bool byte_level, TokenizerImpl& impl);

}  // namespace lockstep::tokenizer
