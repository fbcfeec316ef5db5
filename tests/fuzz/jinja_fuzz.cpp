// SPDX-License-Identifier: Apache-2.0
// A chat template over a fixed conversation: an error with a line, or a text within the limits whose literal ranges lie
// in it. The limits are a hundredth of the server's, so that a run at a limit stays far below the fuzzer's time-out.
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "chat/jinja/template.h"
#include "nlohmann/json.hpp"

namespace {

namespace jinja = lockstep::chat::jinja;

constexpr jinja::Limits kLimits = {
    .max_source_bytes = 64 << 10, .max_steps = 200'000, .max_value_bytes = 1 << 20, .max_total_bytes = 16 << 20};

const std::vector<jinja::Variable>& variables() {
  static const std::vector<jinja::Variable> kVariables = [] {
    const auto messages = nlohmann::ordered_json::parse(R"([
      {"role": "system", "content": "You are \u00fcber <|im_end|> helpful."},
      {"role": "user", "content": [{"type": "text", "text": "Weather in K\u00f6ln?"}]},
      {"role": "assistant", "content": "<think>\nhm\n</think>\n\n", "tool_calls": [{"id": "call00001", "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "K\u00f6ln", "days": [1, 2.5, null, true]}}}]},
      {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": "12 \u00b0C"},
      {"role": "user", "content": "thanks"}])");
    const auto tools = nlohmann::ordered_json::parse(R"([{"type": "function", "function": {"name": "get_weather",
      "description": "now", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])");
    return std::vector<jinja::Variable>{{"messages", messages, true},    {"tools", tools, true}, {"documents", nullptr},
                                        {"add_generation_prompt", true}, {"bos_token", "<s>"},   {"eos_token", "</s>"}};
  }();
  return kVariables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = jinja::Template::parse(source, kLimits);
  if (!parsed) {
    LOCKSTEP_CHECK(parsed.error().message().starts_with("line "));
    return 0;
  }
  const auto rendered = parsed->render(variables(), jinja::ClockTime{});
  if (!rendered) {
    LOCKSTEP_CHECK(!rendered.error().message().empty());
    return 0;
  }
  const auto bytes = static_cast<int64_t>(rendered->text.size());
  LOCKSTEP_CHECK(bytes <= kLimits.max_value_bytes);
  int64_t end = -1;
  for (const auto& range : rendered->literal) {
    LOCKSTEP_CHECK(range.begin > end && range.begin < range.end && range.end <= bytes);
    end = range.end;
  }
  return 0;
}
