// SPDX-License-Identifier: Apache-2.0
// The inside of Tokenizer, put together by the loaders.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/vocabulary.h"

namespace lockstep::tokenizer {

/// What is taken off the start of a decoded text.
enum class DecodeStart {
  kKeep,
  kOneSpace,          ///< one leading blank of the text
  kFirstTokenSpaces,  ///< all blanks of the first token
};

/// Bytes of each id, for decoding.
class TokenBytes final {
 public:
  /// A later call for the same id wins.
  void set(int32_t id, std::string_view bytes, bool special);
  std::string_view at(int32_t id) const;
  bool is_special(int32_t id) const;
  int32_t size() const { return static_cast<int32_t>(entries_.size()); }

 private:
  struct Entry {
    uint64_t offset = 0;
    uint32_t size = 0;
    bool special = false;
  };
  std::string pool_;
  std::vector<Entry> entries_;
};

/// Memory of one encode() at a time.
struct EncodeScratch {
  std::unique_ptr<ModelScratch> model;
  Pieces pieces;
};

struct TokenizerImpl {
  NormalizerList normalizers;
  AddedTokenMatcher raw_tokens;         // looked for in the text as it is
  AddedTokenMatcher normalized_tokens;  // looked for after normalisation
  PreTokenizerList pre_tokenizers;
  std::unique_ptr<const Model> model;
  std::vector<int32_t> prefix_ids;  // the post-processor's
  std::vector<int32_t> suffix_ids;

  TokenBytes token_bytes;
  DecodeStart decode_start = DecodeStart::kKeep;
  StringTable added_contents;
  std::shared_ptr<const StringTable> vocabulary;
  std::optional<int32_t> bos_id;
  std::optional<int32_t> eos_id;
  std::map<std::string, std::string> special_tokens;
  std::map<std::string, std::string, std::less<>> chat_templates;  // "" = the default one

  /// `text` is valid UTF-8. parse: whether added tokens are looked for.
  Status encode(std::string_view text, std::span<const ByteRange> literal, bool parse, std::vector<int32_t>& out) const;
  std::optional<int32_t> token_to_id(std::string_view content) const;
  /// The bytes of one token as they appear in decoded text; `first` is cleared once there was one.
  std::string_view decoded_bytes(int32_t id, bool skip_special, bool& first, std::string& buffer) const;

 private:
  Status encode_plain(std::string_view text, std::span<const ByteRange> literal, bool parse, bool starts_text,
                      EncodeScratch& scratch, std::vector<int32_t>& out) const;
  Status encode_pieces(std::string_view text, bool starts_text, EncodeScratch& scratch,
                       std::vector<int32_t>& out) const;
  std::unique_ptr<EncodeScratch> take_scratch() const;
  void give_back(std::unique_ptr<EncodeScratch> scratch) const;

  static constexpr size_t kMaxIdleScratches = 16;  // about 0.6 MB each
  mutable std::mutex scratch_mutex_;
  mutable std::vector<std::unique_ptr<EncodeScratch>> idle_scratches_;
};

struct TokenizerBuilder {
  static std::shared_ptr<const Tokenizer> wrap(std::unique_ptr<const TokenizerImpl> impl) {
    return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(impl)));
  }
  /// Normalises the contents of tokens with `normalized`, divides the tokens over the two matchers, and enters them in
  /// added_contents as they were. Call when the normalisers are set.
  static Status set_added_tokens(TokenizerImpl& impl, std::vector<AddedToken>& tokens);
  /// Fills special_tokens, chat_templates, bos_id and eos_id from tokenizer_config.json and its companions.
  static Status read_config(TokenizerImpl& impl, const TokenizerJson& texts);
};

}  // namespace lockstep::tokenizer
