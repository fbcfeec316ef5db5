// SPDX-License-Identifier: Apache-2.0
// Clients that leave or read slowly, and shutting down; and the real engine over the fake backend.
#include <future>

#include "backend/fake/fake_backend.h"
#include "gtest/gtest.h"
#include "server/testing.h"

namespace lockstep::server::testing {
namespace {

using std::chrono::milliseconds;

Expected<Script> long_run(const request::Request&) { return repeat(370, 1000, milliseconds(10)); }

std::string post(const std::string& body) {
  return fmt::format("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
}

TEST(Disconnect, EndsTheRequest) {  // case 32
  TestServer server(long_run);
  for (const bool stream : {true, false}) {
    Client client = server.client();
    client.send(post(fmt::format(R"({{"prompt":"x","max_tokens":200,"n":2,"stream":{}}})", stream)));
    ASSERT_TRUE(eventually([&] { return server.engine().running == 2; }));
    if (stream) {
      EXPECT_TRUE(client.read_until("data: {"));
    }
    client.close();
    EXPECT_TRUE(eventually([&] { return server.engine().running == 0; })) << stream;
    EXPECT_TRUE(eventually([&] { return server.get("/load").json()["server_load"] == 0; }));
  }
}

TEST(Disconnect, PipelinedBytesAreKeptAndAClosedClientIsStillNoticed) {
  TestServer server([](const request::Request& request) {
    return repeat(370, static_cast<int>(request.sampling.max_tokens), milliseconds(10));
  });
  Client client = server.client();
  client.send(post(R"({"prompt":"x","max_tokens":20})"));
  ASSERT_TRUE(eventually([&] { return server.engine().running == 1; }));
  client.send("GET /version HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.read().json()["usage"]["completion_tokens"], 20);
  EXPECT_TRUE(client.read().json().contains("version"));
  client.send(post(R"({"prompt":"x","max_tokens":200})") + "GET /version HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return server.engine().running == 1; }));
  client.close();
  EXPECT_TRUE(eventually([&] { return server.engine().running == 0; }));
}

TEST(SlowReader, DelaysNobodyAndGetsEverything) {
  TestServer server([](const request::Request&) { return repeat(370, 2000); });
  Client slow = server.client();
  slow.socket().set_option(boost::asio::socket_base::receive_buffer_size(4096));
  slow.send(post(R"({"prompt":"x","max_tokens":200,"stream":true})"));
  ASSERT_TRUE(eventually([&] { return server.engine().submitted == 1; }));
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_EQ(server.get("/health").status, 200);
  const Reply reply = slow.read();
  EXPECT_EQ(reply.events().size(), 2001u);
}

TEST(SlowReader, OneThatReadsNothingIsDropped) {
  TestServer server([](const request::Request&) { return repeat(370, 100000); },
                    [](ServerOptions& o) { o.write_timeout_s = 0.2; });
  Client stuck = server.client();
  stuck.send(post(R"({"prompt":"x","max_tokens":200,"stream":true})"));
  ASSERT_TRUE(eventually([&] { return server.engine().submitted == 1; }));
  EXPECT_TRUE(
      eventually([&] { return server.engine().running == 0 && server.get("/load").json()["server_load"] == 0; }));
}

TEST(Drain, RunningRequestsFinishAndNewOnesAreRefused) {  // case 41
  TestServer server([](const request::Request&) { return repeat(370, 30, milliseconds(20)); });
  Client client = server.client();
  Client idle = server.client();
  EXPECT_EQ(idle.request("GET", "/version").status, 200);
  client.send(post(R"({"prompt":"x","max_tokens":30,"stream":true})"));
  ASSERT_TRUE(client.read_until("data: {"));
  server.server().drain();
  EXPECT_EQ(idle.read().status, 0);
  EXPECT_TRUE(client.read_until("\"length\""));
  EXPECT_TRUE(client.read_until("[DONE]"));
  server.server().wait();
  EXPECT_TRUE(server.engine().draining);
  EXPECT_ANY_THROW(server.client());
}

TEST(Drain, WhatOutlivesTheGraceTimeEndsWithAnErrorFrame) {
  TestServer server(long_run, [](ServerOptions& o) { o.grace_seconds = 0.2; });
  Client stream = server.client();
  stream.send(post(R"({"prompt":"x","max_tokens":200,"stream":true})"));
  ASSERT_TRUE(stream.read_until("data: {"));
  Client whole = server.client();
  whole.send(post(R"({"prompt":"x","max_tokens":200})"));
  ASSERT_TRUE(eventually([&] { return server.engine().running == 2; }));
  const auto start = std::chrono::steady_clock::now();
  server.server().drain();
  EXPECT_TRUE(stream.read_until("\"code\":\"cancelled\""));
  EXPECT_TRUE(stream.read_until("data: [DONE]\n\n"));
  const Reply refused = whole.read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.error_code(), "cancelled");
  server.server().wait();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
  EXPECT_TRUE(eventually([&] { return server.engine().running == 0; }));
}

TEST(Destruction, EndsEverythingAtOnce) {
  auto server = std::make_unique<TestServer>(long_run);
  Client client = server->client();
  client.send(post(R"({"prompt":"x","max_tokens":200,"stream":true})"));
  ASSERT_TRUE(client.read_until("data: {"));
  Client idle = server->client();
  server.reset();
  EXPECT_FALSE(client.read_until("[DONE]"));
}

std::unique_ptr<engine::Engine> fake_engine() {
  backend::FakeOptions fake;
  fake.vocab_size = 151936;
  fake.max_model_len = 256;
  engine::EngineOptions options;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 64;
  options.num_kv_blocks = 128;
  options.eos_token_ids = {151645};
  auto engine = engine::Engine::create(backend::make_fake_backend(fake), options);
  EXPECT_TRUE(engine) << engine.error().to_string();
  return *std::move(engine);
}

TEST(RealEngine, AnswersAreTheSameAloneTogetherAndStreamed) {
  const auto engine = fake_engine();
  ServerOptions options;
  options.port = 0;
  options.served_model_names = {"M"};
  options.handle_signals = false;
  const auto server = *Server::start(options);
  server->set_ready(*engine, qwen3());
  const auto text = [&](int number, bool stream) {
    const std::string body = fmt::format(
        R"({{"prompt":"word {}","max_tokens":40,"temperature":0,"ignore_eos":true,"stream":{}}})", number, stream);
    Client client(server->port());
    const Reply reply = client.post("/v1/completions", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    if (!stream) return reply.json()["choices"][0]["text"].get<std::string>();
    std::string out;
    for (const std::string& payload : reply.events()) {
      if (payload != "[DONE]") out += Json::parse(payload)["choices"][0]["text"].get<std::string>();
    }
    return out;
  };
  std::vector<std::string> alone;
  for (int i = 0; i < 8; ++i) alone.push_back(text(i, false));
  EXPECT_NE(alone[0], alone[1]);
  std::vector<std::future<std::string>> together;
  for (int i = 0; i < 8; ++i) together.push_back(std::async(std::launch::async, text, i, i % 2 == 0));
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(together[i].get(), alone[i]) << i;
  EXPECT_TRUE(eventually([&] { return engine->stats().num_running == 0; }));
}

}  // namespace
}  // namespace lockstep::server::testing
