// SPDX-License-Identifier: Apache-2.0
// Checks a request's messages and brings them to the form that templates expect (api.md, decision 2). Applied by serve
// and by `generate --chat`, before ChatTemplate::render.
#pragma once

#include "base/status.h"
#include "nlohmann/json.hpp"

namespace lockstep::chat {

/// `messages` must be an array of at least one object. In place:
///   - content null or absent becomes "", a list of text parts becomes their texts joined by one newline;
///   - role "developer" becomes "system";
///   - function.arguments of a tool call given as a string is parsed to an object, "" and null become {}.
/// Roles: system, developer, user, assistant, tool. Keys: role, content, name, and for assistant tool_calls,
/// reasoning_content, reasoning, thinking, refusal, audio, function_call (the last three only null), for tool
/// tool_call_id. On error the message names the place ("messages[2].content[0]: ...") and `messages` is left partly
/// changed. Errors: kInvalidArgument.
Status normalise_messages(nlohmann::ordered_json& messages);

}  // namespace lockstep::chat
