// SPDX-License-Identifier: Apache-2.0
// Token ids to text, one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace lockstep::tokenizer {

/// One per stream; not thread-safe. The results of all append() calls and finish() join to exactly
/// Tokenizer::decode(all ids, skip_special_tokens), and each is valid UTF-8: bytes of an unfinished character are held
/// back.
class Detokenizer final {
 public:
  Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens);

  /// The text that this token completes; empty while it only begins or continues a character.
  std::string append(int32_t id);
  /// The held-back bytes, as U+FFFD. Afterwards the object is as new.
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_tokens_;
  bool at_start_ = true;
  std::string pending_;  // at most 3 bytes: a prefix of a character
};

}  // namespace lockstep::tokenizer
