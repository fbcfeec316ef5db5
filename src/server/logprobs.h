// SPDX-License-Identifier: Apache-2.0
// The three shapes in which logprobs are reported: OpenAI's for completions and for chats, and vLLM's for prompts.
#pragma once

#include "server/generation.h"
#include "text/text_model.h"

namespace lockstep::server {

/// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}. With echo the prompt's tokens come first; offsets are
/// characters of the text.
Json completion_logprobs(const GenerationPlan& plan, const text::TextModel& text, const ChoiceDelta& delta);
/// {"content": [{"token", "logprob", "bytes", "top_logprobs"}], "refusal": null}. One entry a generated token, the end
/// token too.
Json chat_logprobs(const GenerationPlan& plan, const text::TextModel& text, const ChoiceDelta& delta);
/// [null, {"<id>": {"logprob", "rank", "decoded_token"}, ...}, ...]: for each prompt token itself and the best ones.
Json prompt_logprobs(const GenerationPlan& plan, const text::TextModel& text, const ChoiceDelta& delta);

}  // namespace lockstep::server
