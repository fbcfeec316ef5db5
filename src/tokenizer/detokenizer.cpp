// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/detokenizer.h"

#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

std::string Detokenizer::append(int32_t id) {
  std::string buffer;
  pending_.append(tokenizer_->impl_->decoded_bytes(id, skip_special_tokens_, at_start_, buffer));
  std::string text;
  const size_t kept = append_replacing_invalid(text, pending_, /*keep_truncated=*/true);
  pending_.erase(0, pending_.size() - kept);
  return text;
}

std::string Detokenizer::finish() {
  std::string text;
  append_replacing_invalid(text, pending_, /*keep_truncated=*/false);
  pending_.clear();
  at_start_ = true;
  return text;
}

}  // namespace lockstep::tokenizer
