// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back. What Hugging Face's `tokenizers` 0.23 gives for the same tokenizer.json, id for id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "files/gguf.h"

namespace lockstep::tokenizer {

struct TokenizerImpl;

/// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

struct EncodeOptions {
  /// Added and special tokens that occur in the text become their ids; false: the whole text is plain text.
  bool parse_special = true;
  /// Runs the post-processor: the ids that the tokenizer puts before and after a text (BOS, EOS).
  bool add_special_tokens = false;
};

/// The texts that Tokenizer::from_json() reads; empty = that file does not exist.
struct TokenizerJson {
  std::string name = {};            ///< what errors call the tokenizer.json, usually its path
  std::string tokenizer_json = {};  ///< required
  std::string tokenizer_config_json = {};
  std::string special_tokens_map_json = {};
  std::string chat_template_jinja = {};  ///< wins over tokenizer_config.json's chat_template
};

/// Immutable after load; every method is safe from many threads at once.
///
/// Texts are UTF-8. Bytes that are not valid UTF-8 are taken as U+FFFD, as Python's decode("utf-8", "replace") does.
class Tokenizer final {
 public:
  /// A directory with tokenizer.json (and tokenizer_config.json, special_tokens_map.json, chat_template.jinja where
  /// there), a tokenizer.json, or a .gguf file. Errors (kNotFound, kDataLoss, kInvalidArgument, kUnsupported) name the
  /// file, the field and what was found there.
  static Expected<std::shared_ptr<const Tokenizer>> load(const std::filesystem::path& dir_or_gguf);
  /// From the tokenizer.ggml.* keys of the file's metadata. The file may be closed afterwards.
  static Expected<std::shared_ptr<const Tokenizer>> from_gguf(const std::shared_ptr<const files::GgufFile>& file);
  static Expected<std::shared_ptr<const Tokenizer>> from_json(const TokenizerJson& texts);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  /// Never fails for the tokenizers of common models. kResourceExhausted if an unusual pre-tokenizer regex runs into
  /// its match limit on this text.
  Expected<std::vector<int32_t>> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The chat path (api.md, decision 1): the text is encoded once, as encode() does with parse_special, except that
  /// a token with special=true is not matched where its text touches a literal (request-born) byte; tokens with
  /// special=false are matched everywhere. `literal` must be ascending and without overlaps (else kInvalidArgument).
  /// No post-processor runs: a chat template writes its own BOS.
  Expected<std::vector<int32_t>> encode_with_literal_ranges(std::string_view text,
                                                            std::span<const ByteRange> literal) const;

  /// The bytes of all tokens joined; what is not UTF-8 becomes U+FFFD as in Python's decode("utf-8", "replace").
  /// Ids without a token give nothing. skip_special_tokens drops tokens with special=true only, so <think> stays.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  /// Raw bytes of one token, possibly a part of a character; empty for an id without a token.
  std::string token_bytes(int32_t id) const;
  /// True for a token with special=true (GGUF: a control token).
  bool is_special(int32_t id) const;
  /// The largest id plus one. A model's vocabulary may be larger (padding) but hardly smaller.
  int32_t vocab_size() const;
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  /// The id of an added token by its text, or of a vocabulary entry by its spelling in the file (byte-level: "Ġthe").
  std::optional<int32_t> token_to_id(std::string_view content) const;

  /// Texts of bos_token, eos_token, unk_token, pad_token, ... as chat templates see them; a token that is not defined
  /// is absent.
  const std::map<std::string, std::string>& special_tokens() const;
  /// The chat template's source. name "" = the default one; others are named templates such as "tool_use".
  std::optional<std::string> chat_template(std::string_view name = {}) const;

 private:
  friend class Detokenizer;
  friend struct TokenizerBuilder;
  explicit Tokenizer(std::unique_ptr<const TokenizerImpl> impl);
  std::unique_ptr<const TokenizerImpl> impl_;
};

}  // namespace lockstep::tokenizer
