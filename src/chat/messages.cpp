// SPDX-License-Identifier: Apache-2.0
#include "chat/messages.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "chat/json_bounds.h"

namespace lockstep::chat {

namespace {

using Json = nlohmann::ordered_json;

template <size_t kCount>
bool is_one_of(std::string_view name, const std::array<std::string_view, kCount>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant", "tool"};
constexpr std::array<std::string_view, 3> kCommonKeys = {"role", "content", "name"};
constexpr std::array<std::string_view, 3> kReasoningKeys = {"reasoning_content", "reasoning", "thinking"};
constexpr std::array<std::string_view, 3> kNullKeys = {"refusal", "audio", "function_call"};

Status check_text_or_null(const Json& value, const std::string& place) {
  if (value.is_string() || value.is_null()) return {};
  return invalid_argument("{} must be a string", place);
}

Status check_key(std::string_view role, const std::string& key, const Json& value, const std::string& place) {
  if (key == "name") return check_text_or_null(value, place);
  if (is_one_of(key, kCommonKeys)) return {};
  const bool assistant_key = key == "tool_calls" || is_one_of(key, kReasoningKeys) || is_one_of(key, kNullKeys);
  if (!assistant_key && key != "tool_call_id") return invalid_argument("{} is not a known field", place);
  if (value.is_null()) return {};
  if (is_one_of(key, kNullKeys)) return invalid_argument("{} is not supported", place);
  const std::string_view owner = assistant_key ? "assistant" : "tool";
  if (role != owner) return invalid_argument("{} is only for the role {}", place, owner);
  return key == "tool_calls" ? Status() : check_text_or_null(value, place);
}

Status read_role(Json& message, const std::string& place, std::string& role) {
  const auto found = message.find("role");
  if (found == message.end()) return invalid_argument("{}.role is missing", place);
  if (!found->is_string()) return invalid_argument("{}.role must be a string", place);
  role = found->get<std::string>();
  if (!is_one_of(role, kRoles)) {
    return invalid_argument("{}.role must be one of system, developer, user, assistant, tool", place);
  }
  if (role == "developer") *found = "system";
  return {};
}

Expected<std::string> join_parts(const Json& parts, const std::string& place) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    const std::string here = fmt::format("{}[{}]", place, i);
    if (!part.is_object()) return invalid_argument("{} must be an object", here);
    const auto type = part.find("type");
    if (type == part.end() || !type->is_string()) return invalid_argument("{}.type must be a string", here);
    if (*type != "text") {
      return invalid_argument("{}: parts of type '{}' are not supported, this model reads text only", here,
                              type->get<std::string>());
    }
    for (const auto& [key, value] : part.items()) {
      if (key != "type" && key != "text") return invalid_argument("{}.{} is not a known field", here, key);
    }
    const auto text = part.find("text");
    if (text == part.end() || !text->is_string()) return invalid_argument("{}.text must be a string", here);
    if (i != 0) joined += '\n';
    joined += text->get_ref<const std::string&>();
  }
  return joined;
}

Status normalise_content(Json& message, const std::string& place) {
  Json& content = message["content"];  // null when it was absent
  if (content.is_string()) return {};
  if (content.is_null()) {
    content = "";
    return {};
  }
  if (!content.is_array()) return invalid_argument("{}.content must be a string or a list of parts", place);
  LOCKSTEP_ASSIGN_OR_RETURN(content, join_parts(content, place + ".content"));
  return {};
}

Status normalise_arguments(Json& function, const std::string& place) {
  Json& arguments = function["arguments"];
  if (arguments.is_string()) {
    const auto& text = arguments.get_ref<const std::string&>();
    auto parsed = text.empty() ? std::optional(Json::object()) : parse_bounded_json(text);
    if (!parsed) return invalid_argument("{}.arguments is not valid JSON, or has too many keys", place);
    arguments = *std::move(parsed);
  }
  if (arguments.is_null()) arguments = Json::object();
  if (!arguments.is_object()) return invalid_argument("{}.arguments must be a JSON object", place);
  if (is_deeper_than(arguments, kMaxJsonDepth / 2)) return invalid_argument("{}.arguments is nested too deep", place);
  return {};
}

Status normalise_tool_call(Json& call, const std::string& place) {
  if (!call.is_object()) return invalid_argument("{} must be an object", place);
  static constexpr std::array<std::string_view, 4> kKeys = {"id", "type", "function", "index"};
  for (const auto& [key, value] : call.items()) {
    if (!is_one_of(key, kKeys)) return invalid_argument("{}.{} is not a known field", place, key);
  }
  if (call.contains("id")) LOCKSTEP_RETURN_IF_ERROR(check_text_or_null(call["id"], place + ".id"));
  if (call.contains("index") && !call["index"].is_number_integer()) {
    return invalid_argument("{}.index must be an integer", place);
  }
  if (call.contains("type") && call["type"] != "function") return invalid_argument("{}.type must be 'function'", place);
  const auto function = call.find("function");
  const std::string here = place + ".function";
  if (function == call.end() || !function->is_object()) return invalid_argument("{} must be an object", here);
  for (const auto& [key, value] : function->items()) {
    if (key != "name" && key != "arguments") return invalid_argument("{}.{} is not a known field", here, key);
  }
  if (!function->contains("name") || !(*function)["name"].is_string()) {
    return invalid_argument("{}.name must be a string", here);
  }
  return normalise_arguments(*function, here);
}

Status normalise_message(Json& message, const std::string& place) {
  if (!message.is_object()) return invalid_argument("{} must be an object", place);
  std::string role;
  LOCKSTEP_RETURN_IF_ERROR(read_role(message, place, role));
  for (const auto& [key, value] : message.items()) {
    LOCKSTEP_RETURN_IF_ERROR(check_key(role, key, value, fmt::format("{}.{}", place, key)));
  }
  LOCKSTEP_RETURN_IF_ERROR(normalise_content(message, place));
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || calls->is_null()) return {};
  if (!calls->is_array()) return invalid_argument("{}.tool_calls must be a list", place);
  for (size_t i = 0; i < calls->size(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(normalise_tool_call((*calls)[i], fmt::format("{}.tool_calls[{}]", place, i)));
  }
  return {};
}

}  // namespace

Status normalise_messages(nlohmann::ordered_json& messages) {
  if (!messages.is_array()) return invalid_argument("messages must be a list");
  if (messages.empty()) return invalid_argument("messages must not be empty");
  if (is_deeper_than(messages, kMaxJsonDepth)) return invalid_argument("messages is nested too deep");
  for (size_t i = 0; i < messages.size(); ++i) {
    LOCKSTEP_RETURN_IF_ERROR(normalise_message(messages[i], fmt::format("messages[{}]", i)));
  }
  return {};
}

}  // namespace lockstep::chat
