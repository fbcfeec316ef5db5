// SPDX-License-Identifier: Apache-2.0
#include "chat/chat_template.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "chat/jinja/unicode.h"
#include "chat/json_bounds.h"

namespace lockstep::chat {

namespace {

using Json = nlohmann::ordered_json;

/// Put behind the last message's content, to find the place again in the rendered text. The blank shows whether the
/// template strips what it prints.
constexpr std::string_view kContinueTag = "CONTINUE_FINAL_MESSAGE_TAG ";
constexpr std::string_view kBareContinueTag = "CONTINUE_FINAL_MESSAGE_TAG";

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    const size_t last = jinja::previous_character(text, text.size());
    if (!jinja::is_space(jinja::decode_at(text, last).value)) break;
    text = text.substr(0, last);
  }
  return text;
}

std::string_view strip(std::string_view text) {
  text = strip_right(text);
  while (!text.empty()) {
    const auto first = jinja::decode_at(text, 0);
    if (!jinja::is_space(first.value)) break;
    text.remove_prefix(first.bytes);
  }
  return text;
}

Status check_shape(const RenderRequest& request) {
  const Json& messages = request.messages;
  if (!messages.is_array() || messages.empty()) return invalid_argument("messages must be a list that is not empty");
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is_object()) return invalid_argument("messages[{}] must be an object", i);
  }
  if (!request.tools.is_null() && !request.tools.is_array()) return invalid_argument("tools must be a list");
  for (size_t i = 0; i < request.tools.size(); ++i) {
    if (!request.tools[i].is_object()) return invalid_argument("tools[{}] must be an object", i);
  }
  const Json& more = request.chat_template_kwargs;
  if (!more.is_null() && !more.is_object()) return invalid_argument("chat_template_kwargs must be an object");
  static constexpr std::array kOwn = {"messages", "tools", "add_generation_prompt", "continue_final_message"};
  for (const auto* name : kOwn) {
    if (more.is_object() && more.contains(name)) {
      return invalid_argument("chat_template_kwargs must not hold '{}': it is a field of the request", name);
    }
  }
  for (const Json* part : {&messages, &request.tools, &more}) {
    if (is_deeper_than(*part, kMaxJsonDepth)) {
      return invalid_argument("the request is nested more than {} deep", kMaxJsonDepth);
    }
  }
  if (request.continue_final_message && request.add_generation_prompt) {
    return invalid_argument("continue_final_message and add_generation_prompt are not compatible");
  }
  return {};
}

/// Without the keys whose value is null; reasoning_content filled from its other names, and `thinking` (which some
/// templates read) from it.
Json prepare_message(const Json& message) {
  Json kept = Json::object();
  for (const auto& [key, value] : message.items()) {
    if (!value.is_null()) kept[key] = value;
  }
  for (const auto* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (!kept.contains(name)) continue;
    const Json reasoning = kept[name];
    Json renamed = Json::object();
    renamed["thinking"] = reasoning;
    for (const auto& [key, value] : kept.items()) renamed[key] = value;
    renamed["reasoning_content"] = reasoning;
    return renamed;
  }
  return kept;
}

/// Appends the tag to the last message's text; gives that text as it was.
Expected<std::string> tag_final_message(Json& message, const std::string& source) {
  if (!message.contains("content")) {
    return invalid_argument("continue_final_message is set but the final message has no content to continue");
  }
  if (source.find("content") == std::string::npos) {
    return invalid_argument("continue_final_message is set but the chat template doesn't print a message's content");
  }
  Json* text = &message["content"];
  if (text->is_array()) {
    const auto last = std::find_if(text->rbegin(), text->rend(),
                                   [](const Json& part) { return part.is_object() && part.contains("text"); });
    if (last == text->rend()) {
      return invalid_argument("continue_final_message is set but the final message has no text to continue");
    }
    text = &(*last)["text"];
  }
  if (!text->is_string()) return invalid_argument("continue_final_message needs a final message whose content is text");
  std::string before = text->get<std::string>();
  *text = before + std::string(kContinueTag);
  return before;
}

void truncate(Rendered& rendered, size_t size) {
  rendered.text.resize(size);
  const auto end = static_cast<int64_t>(size);
  while (!rendered.literal.empty() && rendered.literal.back().end > end) {
    rendered.literal.back().end = end;
    if (rendered.literal.back().begin >= end) rendered.literal.pop_back();
  }
}

Status cut_behind_final_message(Rendered& rendered, const std::string& final_text) {
  const size_t tag = rendered.text.rfind(kBareContinueTag);
  if (tag == std::string::npos || rendered.text.find(strip(final_text)) == std::string::npos) {
    return invalid_argument(
        "continue_final_message is set but the final message does not appear in the chat after the chat template was "
        "applied: the template drops or changes parts of it");
  }
  const std::string_view before = std::string_view(rendered.text).substr(0, tag);
  const bool spaces_kept = rendered.text.compare(tag, kContinueTag.size(), kContinueTag) == 0;
  truncate(rendered, spaces_kept ? tag : strip_right(before).size());
  return {};
}

}  // namespace

Expected<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string source, SpecialTokens special_tokens) {
  auto parsed = jinja::Template::parse(source);
  if (!parsed) {
    const Status& problem = parsed.error();
    return error(problem.code(), "chat template, {}", problem.message());
  }
  return std::shared_ptr<const ChatTemplate>(
      new ChatTemplate(std::move(source), std::move(special_tokens), *std::move(parsed)));
}

Expected<Rendered> ChatTemplate::render(const RenderRequest& request) const {
  LOCKSTEP_RETURN_IF_ERROR(check_shape(request));
  Json messages = Json::array();
  for (const auto& message : request.messages) messages.push_back(prepare_message(message));
  std::string final_text;
  if (request.continue_final_message) {
    LOCKSTEP_ASSIGN_OR_RETURN(final_text, tag_final_message(messages.back(), source_));
  }
  std::vector<jinja::Variable> variables;
  variables.push_back({"documents", nullptr, /*request_born=*/false});
  for (const auto& [name, token] : special_tokens_) variables.push_back({name, token, /*request_born=*/false});
  if (request.chat_template_kwargs.is_object()) {
    for (const auto& [name, value] : request.chat_template_kwargs.items()) {
      variables.push_back({name, value, /*request_born=*/true});
    }
  }
  variables.push_back({"messages", std::move(messages), /*request_born=*/true});
  variables.push_back({"tools", request.tools, /*request_born=*/true});
  variables.push_back({"add_generation_prompt", request.add_generation_prompt, /*request_born=*/false});
  auto rendered = template_.render(variables, request.now);
  if (!rendered) return error(rendered.error().code(), "chat template, {}", rendered.error().message());
  if (request.continue_final_message) LOCKSTEP_RETURN_IF_ERROR(cut_behind_final_message(*rendered, final_text));
  return rendered;
}

}  // namespace lockstep::chat
