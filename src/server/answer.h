// SPDX-License-Identifier: Apache-2.0
// Answers in OpenAI's shapes: whole ones and stream chunks.
#pragma once

#include <string>
#include <vector>

#include "server/generation.h"
#include "text/text_model.h"

namespace lockstep::server {

/// Writes the answers of one plan, which must outlive it together with `text`.
class AnswerWriter final {
 public:
  AnswerWriter(const GenerationPlan& plan, const text::TextModel& text) : plan_(plan), text_(text) {}

  /// The payloads of the stream's chunks for one delta: none if it has nothing to show, two for a chat choice's first
  /// (role, then text).
  std::vector<std::string> chunks(const ChoiceDelta& delta, const Usage& usage) const;
  /// The last chunk, with usage and no choices (stream_options.include_usage).
  std::string usage_chunk(const Usage& usage) const;
  /// The whole answer; one merged delta a choice, by index.
  std::string answer(const std::vector<ChoiceDelta>& choices, const Usage& usage) const;

 private:
  bool is_chat() const { return plan_.kind == ApiKind::kChat; }
  Json head(bool chunk) const;
  void set_chunk_usage(Json& chunk, const Usage& usage) const;
  Json choice(const ChoiceDelta& delta, bool chunk) const;
  std::string visible_text(const ChoiceDelta& delta) const;

  const GenerationPlan& plan_;
  const text::TextModel& text_;
};

/// Appends the later delta of a choice to the earlier.
void merge(ChoiceDelta& into, ChoiceDelta&& later);
Json to_json(const Usage& usage);

}  // namespace lockstep::server
