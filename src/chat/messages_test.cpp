// SPDX-License-Identifier: Apache-2.0
#include "chat/messages.h"

#include <gtest/gtest.h>

namespace lockstep::chat {
namespace {

using Json = nlohmann::ordered_json;

/// The messages after normalisation, or the error's message as a string.
Json normalised(const std::string& text) {
  Json messages = Json::parse(text);
  const Status status = normalise_messages(messages);
  if (!status.ok()) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  }
  return messages;
}

Json with_arguments(const std::string& arguments) {
  return normalised(R"([{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f")" +
                    arguments + "}}]}]");
}

TEST(Messages, ContentBecomesText) {
  EXPECT_EQ(normalised(R"([{"role":"user","content":null}])")[0]["content"], "");
  EXPECT_EQ(normalised(R"([{"role":"user"}])")[0]["content"], "");
  EXPECT_EQ(normalised(R"([{"role":"user","content":[]}])")[0]["content"], "");
  EXPECT_EQ(normalised(R"([{"role":"user","content":" x"}])")[0]["content"], " x");
  EXPECT_EQ(
      normalised(
          R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":""},{"text":"b","type":"text"}]}])")
          [0]["content"],
      "a\n\nb");
}

TEST(Messages, DeveloperIsSystem) {
  EXPECT_EQ(normalised(R"([{"role":"developer","content":"x"}])"), Json::parse(R"([{"role":"system","content":"x"}])"));
}

TEST(Messages, ArgumentsBecomeAnObject) {
  const auto arguments = [](const std::string& text) {
    return with_arguments(text)[0]["tool_calls"][0]["function"]["arguments"];
  };
  EXPECT_EQ(arguments(R"(,"arguments":"{\"b\":1,\"a\":[2.0]}")").dump(), R"({"b":1,"a":[2.0]})");
  EXPECT_EQ(arguments(R"(,"arguments":{"x":{}})").dump(), R"({"x":{}})");
  for (const auto* empty : {R"(,"arguments":"")", R"(,"arguments":null)", R"(,"arguments":"null")", ""}) {
    EXPECT_EQ(arguments(empty).dump(), "{}") << empty;
  }
}

TEST(Messages, ArgumentsThatAreNoObjectAreRefused) {
  const std::string place = "messages[0].tool_calls[0].function.arguments ";
  for (const auto* wrong : {R"("\"x\"")", R"("[1]")", R"("3")", "[1]", "3", "true"}) {
    EXPECT_EQ(with_arguments(std::string(R"(,"arguments":)") + wrong), place + "must be a JSON object") << wrong;
  }
  for (const auto* broken : {R"("{")", R"("{} x")", R"(" ")", R"("{\"a\":NaN}")", R"("{\"a\":\"\\ud800\"}")"}) {
    EXPECT_EQ(with_arguments(std::string(R"(,"arguments":)") + broken),
              place + "is not valid JSON, or has too many keys")
        << broken;
  }
  std::string keys;
  for (int i = 0; i < 200000; ++i) keys += (i == 0 ? "" : ",") + std::string(R"(\"k)") + std::to_string(i) + R"(\":1)";
  EXPECT_EQ(with_arguments(R"(,"arguments":"{)" + keys + "}\""), place + "is not valid JSON, or has too many keys");
  std::string deep = "1";
  for (int i = 0; i < 5000; ++i) deep = "[" + deep + "]";
  EXPECT_EQ(with_arguments(R"(,"arguments":"{\"a\":)" + deep + "}\""), place + "is nested too deep");
}

TEST(Messages, KnownFieldsPass) {
  const std::string text =
      R"([{"role":"system","content":"s","name":"n"},{"role":"user","content":"u","name":null},)"
      R"({"role":"assistant","content":"a","reasoning_content":"r","tool_calls":null,"refusal":null,"audio":null,"function_call":null},)"
      R"({"role":"assistant","content":"","tool_calls":[{"index":0,"id":null,"function":{"name":"f","arguments":{}}}]},)"
      R"({"role":"tool","content":"t","tool_call_id":"x"}])";
  EXPECT_EQ(normalised(text), Json::parse(text));
}

TEST(Messages, WrongShapesAreNamed) {
  const struct {
    const char* messages;
    const char* error;
  } cases[] = {
      {"{}", "messages must be a list"},
      {"\"x\"", "messages must be a list"},
      {"[]", "messages must not be empty"},
      {"[1]", "messages[0] must be an object"},
      {R"([{"content":"x"}])", "messages[0].role is missing"},
      {R"([{"role":1}])", "messages[0].role must be a string"},
      {R"([{"role":"user"},{"role":"robot"}])",
       "messages[1].role must be one of system, developer, user, assistant, tool"},
      {R"([{"role":"user","content":5}])", "messages[0].content must be a string or a list of parts"},
      {R"([{"role":"user","content":{"text":"x"}}])", "messages[0].content must be a string or a list of parts"},
      {R"([{"role":"user","content":["x"]}])", "messages[0].content[0] must be an object"},
      {R"([{"role":"user","content":[{"text":"x"}]}])", "messages[0].content[0].type must be a string"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text must be a string"},
      {R"([{"role":"user","content":[{"type":"text","text":"x","foo":1}]}])",
       "messages[0].content[0].foo is not a known field"},
      {R"([{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"u"}}]}])",
       "messages[0].content[1]: parts of type 'image_url' are not supported, this model reads text only"},
      {R"([{"role":"user","content":"x","foo":null}])", "messages[0].foo is not a known field"},
      {R"([{"role":"user","content":"x","name":1}])", "messages[0].name must be a string"},
      {R"([{"role":"user","content":"x","tool_calls":[]}])", "messages[0].tool_calls is only for the role assistant"},
      {R"([{"role":"user","content":"x","tool_call_id":"a"}])", "messages[0].tool_call_id is only for the role tool"},
      {R"([{"role":"tool","content":"x","tool_call_id":1}])", "messages[0].tool_call_id must be a string"},
      {R"([{"role":"assistant","refusal":"no"}])", "messages[0].refusal is not supported"},
      {R"([{"role":"assistant","reasoning":1}])", "messages[0].reasoning must be a string"},
      {R"([{"role":"assistant","tool_calls":{}}])", "messages[0].tool_calls must be a list"},
      {R"([{"role":"assistant","tool_calls":[1]}])", "messages[0].tool_calls[0] must be an object"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f"},"foo":1}]}])",
       "messages[0].tool_calls[0].foo is not a known field"},
      {R"([{"role":"assistant","tool_calls":[{"id":1,"function":{"name":"f"}}]}])",
       "messages[0].tool_calls[0].id must be a string"},
      {R"([{"role":"assistant","tool_calls":[{"type":"code"}]}])", "messages[0].tool_calls[0].type must be 'function'"},
      {R"([{"role":"assistant","tool_calls":[{}]}])", "messages[0].tool_calls[0].function must be an object"},
      {R"([{"role":"assistant","tool_calls":[{"function":{}}]}])",
       "messages[0].tool_calls[0].function.name must be a string"},
      {R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","x":1}}]}])",
       "messages[0].tool_calls[0].function.x is not a known field"},
  };
  for (const auto& test : cases) EXPECT_EQ(normalised(test.messages), test.error) << test.messages;
}

}  // namespace
}  // namespace lockstep::chat
