// SPDX-License-Identifier: Apache-2.0
// The events of one request as text: incremental detokenizing, stop strings, end tokens hidden.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "request/request.h"
#include "text/stop_matcher.h"
#include "tokenizer/detokenizer.h"

namespace lockstep::text {

struct OutputOptions {
  std::vector<std::string> stop;            ///< none is empty
  bool include_stop_str_in_output = false;  ///< text ends with the stop string or end token instead of before it
  bool skip_special_tokens = true;
  int64_t min_tokens = 0;  ///< stop strings are not looked for in the text of the first min_tokens tokens
};

struct OutputToken {
  int32_t id = 0;
  int64_t text_offset = 0;          ///< characters of the text before this token (the text without any prompt)
  request::TokenLogprobs logprobs;  ///< NaN and empty if not asked for
};

/// What one event adds.
struct OutputDelta {
  std::string text;                 ///< valid UTF-8
  std::vector<OutputToken> tokens;  ///< end tokens too; without those behind a stop string
  request::FinishReason finish_reason = request::FinishReason::kNone;  ///< set once, in the last delta
  std::optional<std::string> stop_string;                              ///< with kStop, if a stop string ended the run
  std::optional<int32_t> stop_token;                                   ///< with kStop, if a token ended the run
  Status error;                                                        ///< with kError
};

/// One per request; not thread-safe. The texts of all deltas join to the same text whatever the events' sizes are: the
/// decoded tokens without the end token, up to the first stop string.
class OutputStream final {
 public:
  OutputStream(std::shared_ptr<const tokenizer::Tokenizer> tokenizer, OutputOptions options);

  /// Once ended() the caller cancels the request (a stop string is not known to the engine); later events give an empty
  /// delta.
  OutputDelta append(const request::Event& event);
  bool ended() const { return ended_; }
  /// Tokens of all deltas so far.
  int64_t num_tokens() const { return num_tokens_; }

 private:
  void add_text(std::string_view piece, OutputDelta& delta);
  void finish(request::FinishReason reason, OutputDelta& delta);

  tokenizer::Detokenizer detokenizer_;
  StopMatcher matcher_;
  std::vector<std::string> stop_;
  bool show_end_token_;
  int64_t min_tokens_;
  int64_t num_tokens_ = 0;
  int64_t num_characters_ = 0;
  bool ended_ = false;
};

}  // namespace lockstep::text
