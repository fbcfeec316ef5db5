// SPDX-License-Identifier: Apache-2.0
#include "text/output_stream.h"

#include <algorithm>
#include <utility>

namespace lockstep::text {

using request::FinishReason;

OutputStream::OutputStream(std::shared_ptr<const tokenizer::Tokenizer> tokenizer, OutputOptions options)
    : detokenizer_(std::move(tokenizer), options.skip_special_tokens),
      matcher_(options.stop, options.include_stop_str_in_output),
      stop_(std::move(options.stop)),
      show_end_token_(options.include_stop_str_in_output),
      min_tokens_(options.min_tokens) {}

OutputDelta OutputStream::append(const request::Event& event) {
  OutputDelta delta;
  if (ended_) return delta;
  for (size_t i = 0; i < event.new_token_ids.size() && !ended_; ++i) {
    const int32_t id = event.new_token_ids[i];
    const bool ends_run = event.finish_reason == FinishReason::kStop && i + 1 == event.new_token_ids.size();
    OutputToken& token = delta.tokens.emplace_back(OutputToken{id, num_characters_, {}});
    if (i < event.logprobs.size()) token.logprobs = event.logprobs[i];
    ++num_tokens_;
    if (ends_run) delta.stop_token = id;
    if (!ends_run || show_end_token_) add_text(detokenizer_.append(id), delta);
  }
  if (!ended_ && event.finish_reason != FinishReason::kNone) {
    delta.error = event.error;
    finish(event.finish_reason, delta);
  }
  return delta;
}

void OutputStream::add_text(std::string_view piece, OutputDelta& delta) {
  num_characters_ += std::count_if(piece.begin(), piece.end(), [](char c) { return (c & 0xc0) != 0x80; });
  if (num_tokens_ <= min_tokens_) {
    delta.text += matcher_.pass(piece);
    return;
  }
  StopMatcher::Result result = matcher_.feed(piece);
  delta.text += result.text;
  if (!result.matched) return;
  ended_ = true;
  delta.finish_reason = FinishReason::kStop;
  delta.stop_string = stop_[*result.matched];
  delta.stop_token.reset();
}

void OutputStream::finish(FinishReason reason, OutputDelta& delta) {
  add_text(detokenizer_.finish(), delta);  // an unfinished character becomes U+FFFD, which a stop string may name
  if (ended_) return;
  ended_ = true;
  delta.text += matcher_.finish();
  delta.finish_reason = reason;
}

}  // namespace lockstep::text
