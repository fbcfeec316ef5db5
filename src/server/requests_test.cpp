// SPDX-License-Identifier: Apache-2.0
#include "server/requests.h"

#include "gtest/gtest.h"
#include "server/json_reader.h"

namespace lockstep::server {
namespace {

ModelInfo info() {
  ModelInfo out;
  out.names = {"M", "alias"};
  out.max_model_len = 256;
  out.vocab_size = 151936;
  return out;
}

ApiResult<CompletionRequest> completion(const std::string& fields, const ModelInfo& model = info()) {
  const auto body = parse_body("{" + fields + "}");
  EXPECT_TRUE(body) << fields;
  return parse_completion_request(*body, model);
}

ApiResult<ChatRequest> chat(const std::string& fields) {
  const auto body = parse_body(R"({"messages":[{"role":"user","content":"hi"}])" + fields + "}");
  EXPECT_TRUE(body) << fields;
  return parse_chat_request(*body, info());
}

/// The field that the error is about; "" if there is none.
std::string refused(const std::string& fields) {
  const auto request = completion(R"("prompt":"x",)" + fields);
  if (request) return "";
  EXPECT_EQ(request.error().http_status, 400);
  EXPECT_NE(request.error().message.find(request.error().param), std::string::npos) << request.error().message;
  return request.error().param;
}
std::string refused_chat(const std::string& fields) {
  const auto request = chat("," + fields);
  return request ? "" : request.error().param;
}

TEST(Requests, NumbersHaveTypesAndRanges) {
  for (const char* field : {R"("temperature":-1)",
                            R"("temperature":3)",
                            R"("temperature":"hot")",
                            R"("top_p":0)",
                            R"("top_p":1.1)",
                            R"("top_k":-2)",
                            R"("top_k":1.5)",
                            R"("min_p":-0.1)",
                            R"("min_p":1.5)",
                            R"("presence_penalty":2.1)",
                            R"("frequency_penalty":-2.1)",
                            R"("repetition_penalty":0)",
                            R"("repetition_penalty":2.5)",
                            R"("seed":1.5)",
                            R"("seed":18446744073709551615)",
                            R"("max_tokens":"5")",
                            R"("max_tokens":-1)",
                            R"("max_tokens":1.5)",
                            R"("max_tokens":1000000000000)",
                            R"("max_tokens":0)",
                            R"("max_tokens":true)",
                            R"("min_tokens":-1)",
                            R"("n":0)",
                            R"("n":100000)",
                            R"("logprobs":21)",
                            R"("logprobs":true)",
                            R"("prompt_logprobs":-1)",
                            R"("priority":4294967296)",
                            R"("timeout_s":0)",
                            R"("cache_salt":"")",
                            R"("echo":1)",
                            R"("ignore_eos":"yes")",
                            R"("stop_token_ids":[-1])",
                            R"("stop_token_ids":[151936])",
                            R"("best_of":2)",
                            R"("model":5)"}) {
    const std::string name = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
    EXPECT_EQ(refused(field), name) << field;
  }
  for (const char* field :
       {R"("temperature":0)", R"("temperature":-0.0)", R"("temperature":1e-30)", R"("temperature":2)",
        R"("top_p":1e-9)", R"("top_k":9999999)", R"("top_k":0)", R"("top_k":-1)", R"("seed":-5)", R"("max_tokens":1)",
        R"("min_p":1)", R"("repetition_penalty":2)", R"("logprobs":0)", R"("logprobs":20)", R"("priority":-3)",
        R"("timeout_s":0.5)"}) {
    EXPECT_EQ(refused(field), "") << field;
  }
}

TEST(Requests, NullIsAbsentAndNoOpsAreFine) {
  for (const char* name :
       {"temperature", "top_p", "max_tokens", "n", "stop", "stream", "stream_options", "logit_bias", "response_format",
        "suffix", "best_of", "guided_json", "user", "seed", "model", "echo", "bad_words", "allowed_token_ids"}) {
    EXPECT_EQ(refused(fmt::format("\"{}\":null", name)), "") << name;
  }
  for (const char* field :
       {R"("response_format":{"type":"text"})", R"("n":1)", R"("best_of":1)", R"("suffix":"")", R"("logprobs":false)",
        R"("user":"u")", R"("metadata":{"a":"b"})", R"("store":true)", R"("service_tier":"auto")",
        R"("prompt_cache_key":"k")", R"("safety_identifier":"s")", R"("request_id":"r")", R"("bad_words":[])"}) {
    EXPECT_EQ(refused(field), "") << field;
  }
  EXPECT_EQ(
      refused_chat(
          R"("parallel_tool_calls":true,"modalities":["text"],"tools":[],"tool_choice":"none","logprobs":false,"top_logprobs":0)"),
      "");
}

TEST(Requests, UnsupportedAndUnknownFieldsAreNamed) {
  EXPECT_EQ(refused(R"("response_format":{"type":"json_object"})"), "response_format");
  EXPECT_EQ(refused(R"("guided_json":{})"), "guided_json");
  EXPECT_EQ(refused(R"("suffix":"x")"), "suffix");
  EXPECT_EQ(refused(R"("temprature":1)"), "temprature");
  EXPECT_EQ(refused(R"("messages":[])"), "messages");
  EXPECT_EQ(refused(R"("":1)"), "");
  EXPECT_FALSE(completion(R"("prompt":"x","":1)"));
  EXPECT_EQ(refused_chat(R"("tools":[{"type":"function","function":{"name":"f"}}])"), "tools");
  EXPECT_EQ(refused_chat(R"("tool_choice":"auto")"), "tool_choice");
  EXPECT_EQ(refused_chat(R"("functions":[])"), "functions");
  EXPECT_EQ(refused_chat(R"("prompt":"x")"), "prompt");
  EXPECT_EQ(refused_chat(R"("logprobs":2)"), "logprobs");
  EXPECT_EQ(refused_chat(R"("top_logprobs":2)"), "top_logprobs");
  EXPECT_EQ(refused_chat(R"("max_tokens":5,"max_completion_tokens":6)"), "max_completion_tokens");
  EXPECT_EQ(refused_chat(R"("add_generation_prompt":true,"continue_final_message":true)"), "add_generation_prompt");
}

TEST(Requests, LongNamesAreCutInMessages) {
  const auto request = completion(fmt::format("\"prompt\":\"x\",\"{}\":1", std::string(100000, 'q')));
  ASSERT_FALSE(request);
  EXPECT_LT(request.error().message.size(), 200u);
  EXPECT_LT(request.error().param.size(), 200u);
}

TEST(Requests, StopStrings) {  // case 16
  EXPECT_EQ(refused(R"("stop":"")"), "stop");
  EXPECT_EQ(refused(R"("stop":["a",""])"), "stop");
  EXPECT_EQ(refused(R"("stop":[1])"), "stop");
  EXPECT_EQ(refused(R"("stop":["1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17"])"), "stop");
  EXPECT_TRUE(completion(R"("prompt":"x","stop":[])")->params.output.stop.empty());
  EXPECT_EQ(completion(R"("prompt":"x","stop":"a")")->params.output.stop, std::vector<std::string>{"a"});
  EXPECT_EQ(completion(R"("prompt":"x","stop":["1","2","3","4","5"])")->params.output.stop.size(), 5u);
  EXPECT_EQ(completion(fmt::format("\"prompt\":\"x\",\"stop\":[\"{}\"]", std::string(100000, 'a')))
                ->params.output.stop[0]
                .size(),
            100000u);
}

TEST(Requests, LogitBias) {
  for (const char* bias : {R"({"x":1})", R"({"-1":1})", R"({"151936":1})", R"({"1":101})", R"({"1":"5"})", "[]",
                           R"({"1 ":1})", R"({"1":1,"01":2})", R"({"":1})"}) {
    EXPECT_EQ(refused(fmt::format("\"logit_bias\":{}", bias)), "logit_bias") << bias;
  }
  const auto request = completion(R"("prompt":"x","logit_bias":{"370":100,"7":-2.5})");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->params.sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{7, -2.5f}, {370, 100.0f}}));
}

TEST(Requests, Prompts) {  // cases 18, 26
  EXPECT_EQ(completion(R"("prompt":["a","b"],"n":2)")->prompts.size(), 2u);
  EXPECT_EQ(completion(R"("prompt":[[64],[65]])")->prompts.size(), 2u);
  EXPECT_EQ(std::get<1>(completion(R"("prompt":[64,65])")->prompts.at(0)), (std::vector<int32_t>{64, 65}));
  for (const char* prompt : {"[]", "[[]]", R"(["a",[65]])", R"([[65],"a"])", "[1.5]", "[-1]", "[151936]", "[true]", "5",
                             "{}", "[null]", "[64,\"a\"]"}) {
    const auto request = completion(fmt::format("\"prompt\":{}", prompt));
    ASSERT_FALSE(request) << prompt;
    EXPECT_EQ(request.error().param, "prompt") << prompt;
  }
  const auto without = completion("");
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().param, "prompt");
}

TEST(Requests, ChoicesAreBounded) {
  std::string prompts = "\"a\"";
  for (int i = 1; i < 100; ++i) prompts += ",\"a\"";
  const auto request = completion(fmt::format("\"prompt\":[{}],\"n\":2", prompts));
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().param, "n");
}

TEST(Requests, StreamOptions) {  // case 43
  EXPECT_EQ(refused(R"("stream_options":{"include_usage":true})"), "stream_options");
  EXPECT_EQ(refused(R"("stream":true,"stream_options":{"include_usage":1})"), "stream_options.include_usage");
  EXPECT_EQ(refused(R"("stream":true,"stream_options":{"x":1})"), "stream_options.x");
  EXPECT_EQ(refused(R"("stream":true,"stream_options":5)"), "stream_options");
  const auto request =
      completion(R"("prompt":"x","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})");
  ASSERT_TRUE(request);
  EXPECT_TRUE(request->params.include_usage && request->params.continuous_usage);
}

TEST(Requests, UnknownModelIs404) {
  const auto request = completion(R"("prompt":"x","model":"nope")");
  ASSERT_FALSE(request);
  EXPECT_EQ(request.error().http_status, 404);
  EXPECT_EQ(request.error().code, "model_not_found");
  EXPECT_TRUE(completion(R"("prompt":"x","model":"alias")"));
}

TEST(Requests, DefaultsOfTheModelAndOfTheRequest) {  // case 24
  ModelInfo model = info();
  EXPECT_EQ(completion(R"("prompt":"x")", model)->params.sampling.temperature, 1.0);
  model.defaults = {0.6, 0.95, std::nullopt, 1.05, 20};
  for (const char* fields :
       {R"("prompt":"x")", R"("prompt":"x","temperature":null,"top_k":null,"top_p":null,"repetition_penalty":null)"}) {
    const request::SamplingParams sampling = completion(fields, model)->params.sampling;
    EXPECT_EQ(sampling.temperature, 0.6);
    EXPECT_EQ(sampling.top_k, 20);
    EXPECT_EQ(sampling.top_p, 0.95);
    EXPECT_EQ(sampling.repetition_penalty, 1.05);
  }
  EXPECT_EQ(completion(R"("prompt":"x","temperature":0)", model)->params.sampling.temperature, 0.0);
  EXPECT_EQ(completion(R"("prompt":"x","top_k":0)", model)->params.sampling.top_k, 0);
}

TEST(Requests, BodiesThatAreNoObjects) {  // case 39
  for (const char* text : {"[]", "null", "\"s\"", "5"}) {
    const Json body = *parse_body(text);
    EXPECT_EQ(parse_completion_request(body, info()).error().http_status, 400) << text;
    EXPECT_EQ(parse_chat_request(body, info()).error().http_status, 400) << text;
    EXPECT_EQ(parse_tokenize_request(body).error().http_status, 400) << text;
    EXPECT_EQ(parse_detokenize_request(body).error().http_status, 400) << text;
  }
  EXPECT_EQ(parse_chat_request(*parse_body("{}"), info()).error().param, "messages");
  EXPECT_EQ(parse_chat_request(*parse_body(R"({"messages":{}})"), info()).error().param, "messages");
  EXPECT_EQ(parse_chat_request(*parse_body(R"({"messages":[]})"), info()).error().param, "messages");
}

TEST(Requests, ContextLimits) {  // case 17
  const auto resolve = [](std::optional<int64_t> max_tokens, int64_t prompt, int64_t absent) {
    GenerationParams params;
    params.max_tokens = max_tokens;
    return resolve_max_tokens(params, info(), prompt, absent, "prompt");
  };
  EXPECT_EQ(*resolve(156, 100, 16), 156);
  const auto over = resolve(157, 100, 16);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().param, "max_tokens");
  EXPECT_NE(over.error().message.find("256"), std::string::npos);
  EXPECT_EQ(*resolve(std::nullopt, 255, 16), 1);
  EXPECT_EQ(*resolve(std::nullopt, 100, 16), 16);
  EXPECT_EQ(*resolve(std::nullopt, 100, 1'000'000), 156);
  EXPECT_EQ(resolve(std::nullopt, 256, 16).error().param, "prompt");
  EXPECT_EQ(resolve(std::nullopt, 0, 16).error().param, "prompt");
  EXPECT_EQ(*resolve(0, 256, 16), 0);
}

}  // namespace
}  // namespace lockstep::server
