// SPDX-License-Identifier: Apache-2.0
// HTTP as such, over loopback.
#include "gtest/gtest.h"
#include "server/testing.h"

namespace lockstep::server::testing {
namespace {

const std::string kPost = R"({"model":"M","prompt":"x"})";

Expected<Script> three_tokens(const request::Request&) { return repeat(370, 3); }

TEST(Http, NotReadyUntilTheModelIs) {
  ServerOptions options;
  options.port = 0;
  options.served_model_names = {"M"};
  options.handle_signals = false;
  auto server = Server::start(options);
  ASSERT_TRUE(server) << server.error().to_string();
  Client client((*server)->port());
  EXPECT_EQ(client.request("GET", "/health").status, 503);
  EXPECT_EQ(client.request("GET", "/v1/models").status, 503);
  EXPECT_EQ(client.request("GET", "/metrics").status, 503);
  EXPECT_EQ(client.request("GET", "/version").status, 200);
  const Reply early = client.post("/v1/completions", kPost);
  EXPECT_EQ(early.status, 503);
  EXPECT_EQ(early.headers.count("retry-after"), 1u);
  (*server)->set_ready(std::make_unique<ScriptedEngine>(three_tokens), qwen3());
  EXPECT_EQ(client.request("GET", "/health").status, 200);
  EXPECT_EQ(client.post("/v1/completions", kPost).status, 200);
}

TEST(Http, APortInUseIsAClearError) {
  TestServer first(three_tokens);
  ServerOptions options;
  options.port = first.server().port();
  options.served_model_names = {"M"};
  const auto second = Server::start(options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), StatusCode::kUnavailable);
  EXPECT_NE(second.error().message().find(std::to_string(options.port)), std::string::npos);
  EXPECT_NE(second.error().message().find("--port"), std::string::npos);
  options.host = "no.such.host.invalid";
  EXPECT_FALSE(Server::start(options));
}

TEST(Http, ModelsVersionLoadAndMetrics) {
  TestServer server(three_tokens, [](ServerOptions& o) { o.served_model_names = {"M", "org/alias"}; });
  const Json models = server.get("/v1/models").json();
  ASSERT_EQ(models.at("data").size(), 2u);
  EXPECT_EQ(models["data"][0]["id"], "M");
  EXPECT_EQ(models["data"][0]["max_model_len"], 256);
  EXPECT_EQ(server.get("/v1/models/org/alias").json()["id"], "org/alias");
  EXPECT_EQ(server.get("/v1/models/nope").error_code(), "model_not_found");
  EXPECT_EQ(server.get("/load").json()["server_load"], 0);
  EXPECT_EQ(server.get("/ping").status, 200);
  EXPECT_TRUE(server.get("/version").json().contains("version"));
  EXPECT_EQ(server.post("/flush_cache", "").status, 200);
  EXPECT_EQ(server.engine().flushed, 1);
  const Reply metrics = server.get("/metrics");
  EXPECT_EQ(metrics.headers.at("content-type").rfind("text/plain", 0), 0u);
  EXPECT_NE(metrics.body.find("vllm:kv_cache_usage_perc{model_name=\"M\",engine=\"0\"} 0.25\n"), std::string::npos);
}

TEST(Http, HealthFollowsTheEngine) {
  TestServer server(three_tokens);
  EXPECT_EQ(server.get("/health").status, 200);
  server.engine().alive = false;
  EXPECT_EQ(server.get("/health").status, 503);
  EXPECT_EQ(server.post("/v1/completions", kPost).status, 503);
}

TEST(Http, ErrorsAreAlwaysTheErrorObject) {  // case 39
  TestServer server(three_tokens);
  struct Case {
    const char *method, *path, *body;
    int status;
  };
  for (const Case& c :
       {Case{"POST", "/v1/chat/completions", R"({"model":"M","messages":[],x})", 400},
        Case{"POST", "/v1/chat/completions", "[]", 400}, Case{"POST", "/v1/chat/completions", "null", 400},
        Case{"POST", "/v1/chat/completions", "\"s\"", 400},
        Case{"POST", "/v1/chat/completions", R"({"model":"M"})", 400},
        Case{"POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],"max_tokens":"5"})", 400},
        Case{"POST", "/v1/chat/completions", R"({"messages":{}})", 400},
        Case{"POST", "/v1/chat/completions", R"({"messages":[{"role":"king","content":"x"}]})", 400},
        Case{"POST", "/v1/chat/completions", R"({"model":"nope","messages":[{"role":"user","content":"x"}]})", 404},
        Case{"GET", "/v1/chat/completions", "", 405}, Case{"GET", "/nothing", "", 404},
        Case{"POST", "/v1/completions", "", 400}, Case{"POST", "/tokenize", "{", 400},
        Case{"POST", "/v1/completions", "{\"prompt\":\"\xff\"}", 400},
        Case{"POST", "/v1/completions", R"({"prompt":"hi \ud83d"})", 400}}) {
    const Reply reply = server.client().request(c.method, c.path, c.body);
    EXPECT_EQ(reply.status, c.status) << c.path << c.body;
    EXPECT_EQ(reply.headers.at("content-type"), "application/json");
    const Json error = reply.json().at("error");
    EXPECT_TRUE(error.at("message").is_string() && error.at("type").is_string() && error.contains("param") &&
                error.contains("code"))
        << reply.body;
  }
  EXPECT_EQ(server.post("/v1/completions", R"({"model":"nope","prompt":"x"})").error_code(), "model_not_found");
  EXPECT_EQ(server.get("/v1/completions").headers.at("allow"), "POST, OPTIONS");
}

TEST(Http, KeepAliveAndPipelining) {
  TestServer server(three_tokens);
  Client client = server.client();
  const std::string post =
      fmt::format("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}", kPost.size(), kPost);
  std::string all;
  for (int i = 0; i < 20; ++i) all += post + "GET /version HTTP/1.1\r\nHost: x\r\n\r\n";
  client.send(all);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(client.read().json()["choices"][0]["text"], "ababab");
    EXPECT_TRUE(client.read().json().contains("version"));
  }
  const Reply last = client.request("GET", "/version", "", "Connection: close\r\n");
  EXPECT_EQ(last.headers.at("connection"), "close");
  EXPECT_EQ(client.read().status, 0);
}

TEST(Http, HeadHttp10AndAbsoluteTargets) {
  TestServer server(three_tokens);
  const Reply head = server.client().request("HEAD", "/health");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.body, "");
  Client old = server.client();
  old.send("GET /version HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.read().headers.at("connection"), "close");
  EXPECT_EQ(server.client().request("GET", "http://x/health").status, 200);
  Client stream = server.client();
  const std::string body = R"({"prompt":"x","stream":true})";
  stream.send(fmt::format("POST /v1/completions HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
  const Reply events = stream.read();
  EXPECT_EQ(events.headers.count("transfer-encoding"), 0u);
  EXPECT_EQ(events.events().back(), "[DONE]");
}

TEST(Http, BodiesHaveALimit) {
  TestServer server(three_tokens, [](ServerOptions& o) { o.max_body_bytes = 1000; });
  const Reply big = server.post("/v1/completions", std::string(200'000, ' '));
  EXPECT_EQ(big.status, 413);
  EXPECT_EQ(big.error_code(), "body_too_large");
  Client chunked = server.client();
  chunked.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n800\r\n" +
               std::string(2048, ' ') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.read().status, 413);
  EXPECT_EQ(server.client().request("GET", "/version", "", "X: " + std::string(100'000, 'x') + "\r\n").status, 431);
  EXPECT_EQ(server.post("/v1/completions", kPost).status, 200);
  Client small = server.client();
  small.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (char c : kPost) small.send(fmt::format("1\r\n{}\r\n", c));
  small.send("0\r\n\r\n");
  EXPECT_EQ(small.read().status, 200);
}

TEST(Http, Expect100) {
  TestServer server(three_tokens);
  Client client = server.client();
  client.send(fmt::format(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n", kPost.size()));
  EXPECT_TRUE(client.read_until("100 Continue\r\n\r\n"));
  client.send(kPost);
  EXPECT_EQ(client.read().status, 200);
}

TEST(Http, GarbageIsRefusedAndTheServerLives) {
  TestServer server(three_tokens);
  for (const char* bytes : {"\r\n\r\n\r\n", "hello\r\n\r\n", "GET /health\r\n\r\n", "GET  HTTP/1.1\r\n\r\n",
                            "POST /v1/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                            "GET /%zz HTTP/1.1\r\n\r\n", "\x16\x03\x01\x02"}) {
    Client client = server.client();
    client.send(bytes);
    boost::system::error_code ignored;
    client.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    const int status = client.read().status;
    EXPECT_TRUE(status == 400 || status == 0) << bytes << status;
  }
  EXPECT_EQ(server.get("/health").status, 200);
}

constexpr std::string_view kHundredBytes = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n";

TEST(Http, RequestsThatDoNotComeWholeInTimeGet408) {
  TestServer server(three_tokens, [](ServerOptions& o) { o.read_timeout_s = 0.3; });
  for (const std::string& begun :
       {std::string("POST /v1/comple"), fmt::format("{}\r\n", kHundredBytes), fmt::format("{}\r\n{{", kHundredBytes)}) {
    Client stopped = server.client();
    stopped.send(begun);
    const Reply reply = stopped.read();
    EXPECT_EQ(reply.status, 408) << begun;
    EXPECT_EQ(reply.error_code(), "request_timeout");
    EXPECT_EQ(reply.headers.at("connection"), "close");
    EXPECT_EQ(stopped.read().status, 0);
  }
  Client continued = server.client();
  continued.send(fmt::format("{}Expect: 100-continue\r\n\r\n", kHundredBytes));
  EXPECT_TRUE(continued.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  EXPECT_EQ(continued.read().status, 408);
}

TEST(Http, ABodyThatTricklesGets408AndDelaysNobody) {
  TestServer server(three_tokens, [](ServerOptions& o) { o.read_timeout_s = 0.5; });
  std::vector<std::unique_ptr<Client>> slow;  // more than the network and worker threads
  for (int i = 0; i < 8; ++i) {
    slow.push_back(std::make_unique<Client>(server.server().port()));
    slow.back()->send(fmt::format("{}\r\n", kHundredBytes));
  }
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(300)) {
    for (const auto& client : slow) client->send(" ");
    EXPECT_EQ(server.post("/v1/completions", R"({"prompt":"x"})").status, 200);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (const auto& client : slow) EXPECT_EQ(client->read().status, 408);
}

TEST(Http, TheReadLimitEndsWithTheRequest) {
  TestServer server([](const request::Request&) { return repeat(370, 10, std::chrono::milliseconds(60)); },
                    [](ServerOptions& o) { o.read_timeout_s = 0.2; });
  Client client = server.client();
  const std::string body = R"({"prompt":"x","max_tokens":10})";  // 0.6 s of answering
  EXPECT_EQ(client.post("/v1/completions", body).status, 200);
  EXPECT_EQ(client.post("/v1/completions", body).status, 200);
}

TEST(Http, IdleClientsAreDropped) {
  TestServer server(three_tokens, [](ServerOptions& o) { o.idle_timeout_s = 0.2; });
  Client idle = server.client();
  EXPECT_EQ(idle.read().status, 0);
}

TEST(Http, Cors) {  // case 40
  TestServer server(three_tokens, [](ServerOptions& o) { o.api_keys = {"secret"}; });
  const Reply preflight = server.client().request(
      "OPTIONS", "/v1/chat/completions", "",
      "Origin: http://a\r\nAccess-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: x-y\r\n");
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.headers.at("access-control-allow-origin"), "*");
  EXPECT_EQ(preflight.headers.at("access-control-allow-headers"), "x-y");
  const Reply refused = server.client().request("GET", "/v1/models", "", "Origin: http://a\r\n");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.at("access-control-allow-origin"), "*");
  EXPECT_EQ(server.client().request("GET", "/v1/models", "", "authorization: bearer secret\r\n").status, 200);
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/metrics").status, 200);
  EXPECT_EQ(server.post("/tokenize", R"({"prompt":"x"})").status, 401);
}

TEST(Http, TooManyConnectionsGet503) {
  TestServer server(three_tokens, [](ServerOptions& o) { o.max_connections = 2; });
  Client a = server.client();
  Client b = server.client();
  EXPECT_EQ(a.request("GET", "/version").status, 200);
  EXPECT_EQ(b.request("GET", "/version").status, 200);
  EXPECT_EQ(server.client().read().status, 503);
  a.close();
  EXPECT_TRUE(eventually([&] { return server.get("/version").status == 200; }));
}

}  // namespace
}  // namespace lockstep::server::testing
