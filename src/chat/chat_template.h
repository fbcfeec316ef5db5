// SPDX-License-Identifier: Apache-2.0
// Chat templates: messages in, the model's prompt text out, exactly as transformers 5.24's
// apply_chat_template(tokenize=False) renders it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "chat/jinja/template.h"
#include "chat/rendered.h"
#include "nlohmann/json.hpp"

namespace lockstep::chat {

/// Names as in tokenizer_config.json (bos_token, eos_token, unk_token, pad_token, ...) to their text. Leave out those
/// that the model doesn't have: for a template they are then undefined, as in transformers.
using SpecialTokens = std::map<std::string, std::string>;

/// One rendering. Every string in messages, tools and chat_template_kwargs is request-born.
struct RenderRequest {
  nlohmann::ordered_json messages;              ///< an array of objects, not empty
  nlohmann::ordered_json tools;                 ///< an array of objects; null = none
  bool add_generation_prompt = false;           ///< end with the header of the assistant's turn
  bool continue_final_message = false;          ///< end with the last message's content, its turn left open
  nlohmann::ordered_json chat_template_kwargs;  ///< an object of more variables (enable_thinking, ...); null = none
  std::optional<jinja::ClockTime> now;          ///< what strftime_now sees; absent = the machine's local time
};

/// A model's chat template. Immutable, thread-safe.
class ChatTemplate {
 public:
  /// Errors: kInvalidArgument, "chat template, line N: why". The caller must not go on with another template.
  static Expected<std::shared_ptr<const ChatTemplate>> parse(std::string source, SpecialTokens special_tokens);

  /// Drops message keys whose value is null, fills reasoning_content from its other names (thinking, reasoning),
  /// renders; with continue_final_message cuts the text behind the last message's content. Does not change messages
  /// otherwise: see normalise_messages. Errors: kInvalidArgument (also what the template itself refuses),
  /// kResourceExhausted.
  Expected<Rendered> render(const RenderRequest& request) const;

  /// The template's text.
  const std::string& source() const { return source_; }

 private:
  ChatTemplate(std::string source, SpecialTokens special_tokens, jinja::Template parsed)
      : source_(std::move(source)), special_tokens_(std::move(special_tokens)), template_(std::move(parsed)) {}

  std::string source_;
  SpecialTokens special_tokens_;
  jinja::Template template_;
};

}  // namespace lockstep::chat
