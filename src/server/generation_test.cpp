// SPDX-License-Identifier: Apache-2.0
// Completions and chats over a scripted engine: shapes, streams, stop strings, logprobs, usage.
#include <cmath>

#include "gtest/gtest.h"
#include "server/generation_params.h"
#include "server/testing.h"

namespace lockstep::server::testing {
namespace {

using request::FinishReason;

/// Joins choice `index` of a stream; checks the end.
struct Joined {
  std::string text;
  std::string finish;
  int chunks = 0;
};
Joined join(const Reply& reply, int index = 0) {
  Joined out;
  const std::vector<std::string> events = reply.events();
  EXPECT_FALSE(events.empty());
  if (events.empty()) return out;
  EXPECT_EQ(events.back(), "[DONE]");
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const Json chunk = Json::parse(events[i]);
    for (const Json& choice : chunk.at("choices")) {
      if (choice.at("index") != index) continue;
      ++out.chunks;
      out.text +=
          choice.contains("delta") ? choice["delta"].value("content", "") : choice.at("text").get<std::string>();
      if (!choice.at("finish_reason").is_null()) {
        EXPECT_EQ(out.finish, "") << "two finish chunks";
        out.finish = choice["finish_reason"];
      }
    }
  }
  return out;
}

TEST(Completions, WholeAndStreamed) {
  TestServer server([](const request::Request&) { return repeat(370, 4); });
  const Reply whole = server.post("/v1/completions", R"({"model":"M","prompt":"x","max_tokens":4})");
  const Json json = whole.json();
  EXPECT_EQ(json["object"], "text_completion");
  EXPECT_EQ(json["model"], "M");
  EXPECT_EQ(json["choices"][0]["text"], "abababab");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(dump(json["usage"]),
            R"({"prompt_tokens":1,"completion_tokens":4,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":0},)"
            R"("completion_tokens_details":{"reasoning_tokens":0}})");
  EXPECT_EQ(server.engine().last.prompt_token_ids, std::vector<int32_t>{87});
  EXPECT_EQ(server.engine().last.sampling.max_tokens, 4);
  const Reply stream = server.post("/v1/completions", R"({"prompt":"x","max_tokens":4,"stream":true})");
  EXPECT_EQ(stream.headers.at("content-type").rfind("text/event-stream", 0), 0u);
  EXPECT_EQ(join(stream).text, "abababab");
  EXPECT_EQ(join(stream).finish, "length");
  EXPECT_EQ(join(stream).chunks, 4);
  for (const std::string& event : stream.events()) EXPECT_EQ(event.find("usage"), std::string::npos);
}

TEST(Chat, WholeAndStreamed) {
  TestServer server([](const request::Request&) {
    Script script = repeat(370, 2);
    script.events.back() = event({151645}, FinishReason::kStop);
    return script;
  });
  const std::string messages = R"("messages":[{"role":"user","content":""}])";
  const Json json = server.post("/v1/chat/completions", "{" + messages + "}").json();
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["choices"][0]["message"]["role"], "assistant");
  EXPECT_EQ(json["choices"][0]["message"]["content"], "ab");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["usage"]["prompt_tokens"], 8);  // case 18
  EXPECT_EQ(json["usage"]["completion_tokens"], 2);
  EXPECT_EQ(server.engine().last.sampling.max_tokens, 248);  // case 17: context - prompt
  const Reply stream = server.post("/v1/chat/completions", "{" + messages + R"(,"stream":true})");
  const Json first = Json::parse(stream.events()[0]);
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(join(stream).text, "ab");
  EXPECT_EQ(join(stream).finish, "stop");
}

TEST(Completions, StopStringsEndTheEngineRequest) {  // cases 13, 14
  TestServer server([](const request::Request&) { return repeat(370, 200, std::chrono::milliseconds(5)); });
  for (const bool stream : {false, true}) {
    const Reply reply = server.post(
        "/v1/completions", fmt::format(R"({{"prompt":"x","max_tokens":200,"stop":["bab"],"stream":{}}})", stream));
    EXPECT_EQ(stream ? join(reply).text : reply.json()["choices"][0]["text"].get<std::string>(), "a");
    EXPECT_EQ(stream ? join(reply).finish : reply.json()["choices"][0]["finish_reason"].get<std::string>(), "stop");
    if (!stream) {
      EXPECT_EQ(reply.json()["choices"][0]["stop_reason"], "bab");
      EXPECT_EQ(reply.json()["usage"]["completion_tokens"], 2);
    }
    EXPECT_TRUE(eventually([&] { return server.engine().running == 0; }));
  }
}

TEST(Completions, ACutCharacterIsOneReplacement) {  // case 7
  TestServer server([](const request::Request&) { return repeat(11162, 1); });
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt":"x","max_tokens":1})").json()["choices"][0]["text"], " \uFFFD");
  EXPECT_EQ(join(server.post("/v1/completions", R"({"prompt":"x","max_tokens":1,"stream":true})")).text, " \uFFFD");
}

TEST(Completions, ChoicesOfManyPromptsHaveTheirOwnIndex) {  // case 26
  std::atomic<int> count{0};
  TestServer server([&count](const request::Request& request) {
    ++count;
    return repeat(request.prompt_token_ids[0] == 64 ? 13 : 0, 2 + request.sampling.choice);
  });
  const std::string body = R"({"prompt":["a","b"],"n":2,"max_tokens":3,"echo":true)";
  const Json json = server.post("/v1/completions", body + "}").json();
  ASSERT_EQ(json["choices"].size(), 4u);
  const std::vector<std::string> expected{"a..", "a...", "b!!", "b!!!"};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(json["choices"][static_cast<size_t>(i)]["index"], i);
    EXPECT_EQ(json["choices"][static_cast<size_t>(i)]["text"], expected[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(json["usage"]["prompt_tokens"], 2);
  EXPECT_EQ(json["usage"]["completion_tokens"], 10);
  const Reply stream = server.post("/v1/completions", body + R"(,"stream":true})");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(join(stream, i).text, expected[static_cast<size_t>(i)]);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt":[[64],[65]]})").json()["choices"].size(), 2u);
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt":[64,65]})").json()["choices"].size(), 1u);
  for (const char* prompt : {R"("")", "[]", R"([""])", "[[]]", R"(["a",[65]])", R"(["a",""])"}) {
    EXPECT_EQ(server.post("/v1/completions", fmt::format(R"({{"prompt":{}}})", prompt)).status, 400) << prompt;
  }
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt":"a","n":100000})").error_param(), "n");
}

TEST(Completions, UsageInStreams) {  // case 43
  TestServer server([](const request::Request&) { return repeat(370, 3); });
  const auto chunks = [&](const std::string& options) {
    std::vector<Json> out;
    for (const std::string& text :
         server.post("/v1/completions", R"({"prompt":"x","n":2,"stream":true)" + options + "}").events()) {
      if (text != "[DONE]") out.push_back(Json::parse(text));
    }
    return out;
  };
  for (const Json& chunk : chunks("")) EXPECT_FALSE(chunk.contains("usage"));
  const std::vector<Json> with = chunks(R"(,"stream_options":{"include_usage":true})");
  for (size_t i = 0; i + 1 < with.size(); ++i) EXPECT_TRUE(with[i].at("usage").is_null());
  EXPECT_TRUE(with.back()["choices"].empty());
  EXPECT_EQ(with.back()["usage"]["prompt_tokens"], 1);
  EXPECT_EQ(with.back()["usage"]["completion_tokens"], 6);
  const std::vector<Json> running = chunks(R"(,"stream_options":{"include_usage":true,"continuous_usage_stats":true})");
  for (const Json& chunk : running) EXPECT_EQ(chunk.at("usage")["prompt_tokens"], 1);
  for (const Json& chunk : chunks(R"(,"stream_options":{"continuous_usage_stats":true})"))
    EXPECT_FALSE(chunk.contains("usage"));
}

request::Event with_logprobs(int32_t id, float logprob, std::vector<std::pair<int32_t, float>> top) {
  request::Event out = event({id}, FinishReason::kLength);
  out.logprobs = {{logprob, 0, std::move(top)}};
  return out;
}

TEST(Chat, Logprobs) {  // case 25
  std::vector<std::pair<int32_t, float>> top;
  TestServer server([&top](const request::Request& request) {
    EXPECT_TRUE(request.sampling.logprobs);
    return Script{{with_logprobs(21927, -0.5f, top)}, {}};
  });
  const std::string messages = R"({"messages":[{"role":"user","content":"x"}],"max_tokens":1,"logprobs":true)";
  const Json alone = server.post("/v1/chat/completions", messages + "}").json()["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(dump(alone), R"({"token":" Hello","logprob":-0.5,"bytes":[32,72,101,108,108,111],"top_logprobs":[]})");
  top = {{11162, -0.25f}, {21927, -INFINITY}};
  const Json two = server.post("/v1/chat/completions", messages + R"(,"top_logprobs":2})")
                       .json()["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(dump(two["top_logprobs"]),
            "[{\"token\":\" \uFFFD\",\"logprob\":-0.25,\"bytes\":[32,240,159]},{\"token\":\" "
            "Hello\",\"logprob\":-9999.0,\"bytes\":[32,72,101,108,108,111]}]");
}

TEST(Completions, LogprobsWithEcho) {
  TestServer server([](const request::Request& request) {
    EXPECT_EQ(request.sampling.prompt_logprobs, 1);
    Script script{{with_logprobs(13, -1.5f, {{0, -0.5f}})}, {}};
    script.events[0].prompt_logprobs = {{}, {-2.0f, 3, {{13, -0.125f}}}};
    return script;
  });
  const Json logprobs = server.post("/v1/completions", R"({"prompt":"a b","max_tokens":1,"echo":true,"logprobs":1})")
                            .json()["choices"][0]["logprobs"];
  EXPECT_EQ(dump(logprobs["tokens"]), R"(["a"," b","."])");
  EXPECT_EQ(dump(logprobs["token_logprobs"]), "[null,-2.0,-1.5]");
  EXPECT_EQ(dump(logprobs["top_logprobs"]), R"([null,{".":-0.125," b":-2.0},{"!":-0.5,".":-1.5}])");
  EXPECT_EQ(dump(logprobs["text_offset"]), "[0,1,3]");
}

TEST(Completions, ScoringOnly) {
  TestServer server([](const request::Request& request) {
    EXPECT_EQ(request.sampling.max_tokens, 0);
    Script script{{event({}, FinishReason::kLength)}, {}};
    script.events[0].prompt_logprobs = {{}, {-2.0f, 3, {{13, -0.125f}}}};
    return script;
  });
  const Json json = server.post("/v1/completions", R"({"prompt":"a b","max_tokens":0,"prompt_logprobs":1})").json();
  EXPECT_EQ(
      dump(json["choices"][0]["prompt_logprobs"]),
      R"([null,{"293":{"logprob":-2.0,"rank":3,"decoded_token":" b"},"13":{"logprob":-0.125,"rank":1,"decoded_token":"."}}])");
  EXPECT_EQ(
      server.post("/v1/completions", R"({"prompt":"a b","max_tokens":0,"echo":true})").json()["choices"][0]["text"],
      "a b");
}

TEST(Completions, RequestFieldsReachTheEngine) {
  TestServer server([](const request::Request&) { return repeat(370, 1); });
  server.post(
      "/v1/completions",
      R"({"prompt":"x","temperature":0.5,"top_p":0.9,"top_k":7,"min_p":0.1,"presence_penalty":1,"frequency_penalty":-1,
    "repetition_penalty":1.5,"seed":42,"logit_bias":{"5":-100},"max_tokens":9,"min_tokens":3,"ignore_eos":true,"stop_token_ids":[13],"priority":-2,
    "cache_salt":"s","timeout_s":2.5,"n":1,"logprobs":2})");
  const request::Request& last = server.engine().last;
  EXPECT_EQ(to_string(last.sampling),
            "temperature=0.5 top_p=0.9 top_k=7 min_p=0.1 presence_penalty=1 frequency_penalty=-1 "
            "repetition_penalty=1.5 seed=42 choice=0 "
            "logit_bias=1 max_tokens=9 min_tokens=3 ignore_eos=true stop_token_ids=1 logprobs=2 prompt_logprobs=none");
  EXPECT_EQ(last.priority, -2);
  EXPECT_EQ(last.cache_salt, "s");
  EXPECT_EQ(last.timeout_s, 2.5);
}

TEST(Tokenize, PromptsMessagesAndBack) {
  TestServer server([](const request::Request&) { return repeat(370, 1); });
  const Json prompt = server.post("/tokenize", R"({"prompt":"a<|im_end|>b","return_token_strs":true})").json();
  EXPECT_EQ(dump(prompt),
            R"({"count":3,"max_model_len":256,"tokens":[64,151645,65],"token_strs":["a","<|im_end|>","b"]})");
  EXPECT_EQ(server.post("/tokenize", R"({"messages":[{"role":"user","content":""}]})").json()["count"], 8);
  EXPECT_EQ(server.post("/tokenize", R"({"prompt":""})").json()["count"], 0);
  EXPECT_EQ(server.post("/detokenize", R"({"tokens":[64,151645,65]})").json()["prompt"], "a<|im_end|>b");
  EXPECT_EQ(server.post("/detokenize", R"({"tokens":[-1]})").status, 400);
  EXPECT_EQ(server.post("/detokenize", "{}").error_param(), "tokens");
  EXPECT_EQ(server.post("/tokenize", R"({"prompt":"x","messages":[]})").error_param(), "messages");
  EXPECT_EQ(server.post("/tokenize", R"({"prompt":"x","model":"nope"})").status, 404);
}

TEST(Errors, OfSubmitHaveTheirHttpStatus) {
  Status refusal;
  TestServer server([&refusal](const request::Request& request) -> Expected<Script> {
    if (request.sampling.choice == 1) return unexpected(refusal);
    return repeat(370, 100, std::chrono::milliseconds(20));
  });
  refusal = Status(StatusCode::kResourceExhausted, "the queue is full");
  const Reply full = server.post("/v1/completions", R"({"prompt":"x","n":2,"stream":true})");
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full.headers.count("retry-after"), 1u);
  EXPECT_TRUE(eventually([&] { return server.engine().running == 0; })) << "the accepted choice must end";
  refusal = Status(StatusCode::kInvalidArgument, "never fits");
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt":"x","n":2})").status, 400);
}

TEST(Errors, OfARunningRequest) {
  FinishReason reason = FinishReason::kError;
  TestServer server([&reason](const request::Request&) {
    Script script = repeat(370, 2);
    script.events.back() = event({}, reason);
    if (reason == FinishReason::kError)
      script.events.back().error = Status(StatusCode::kInternal, "the logits are not finite");
    return script;
  });
  const Reply whole = server.post("/v1/completions", R"({"prompt":"x"})");
  EXPECT_EQ(whole.status, 500);
  EXPECT_EQ(whole.error_code(), "error");
  const Reply held = server.post("/v1/completions", R"({"prompt":"x","stream":true,"stop":"abc"})");
  EXPECT_NE(held.body.find("\"text\":\"ab\""), std::string::npos) << "held-back text is delivered: " << held.body;
  EXPECT_EQ(held.body.find("\"finish_reason\":\"error\""), std::string::npos);
  const std::vector<std::string> events = server.post("/v1/completions", R"({"prompt":"x","stream":true})").events();
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(Json::parse(events[events.size() - 2])["error"]["message"], "the logits are not finite");
  reason = FinishReason::kDeadline;
  EXPECT_EQ(server.post("/v1/completions", R"({"prompt":"x"})").error_code(), "deadline");
}

}  // namespace
}  // namespace lockstep::server::testing
