// SPDX-License-Identifier: Apache-2.0
#include "server/router.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "server/metrics.h"
#include "server/options.h"
#include "server/sse.h"

namespace lockstep::server {
namespace {

ApiResult<Route> to(const std::string& method, const std::string& path, const std::string& authorization = "",
                    std::vector<std::string> keys = {}) {
  HttpRequest request;
  request.method = method;
  request.path = path;
  request.authorization = authorization;
  return route(request, keys);
}

TEST(Router, PathsAndMethods) {
  EXPECT_EQ(to("POST", "/v1/completions")->endpoint, Endpoint::kCompletions);
  EXPECT_EQ(to("HEAD", "/health")->endpoint, Endpoint::kHealth);
  EXPECT_TRUE(to("HEAD", "/health")->head);
  EXPECT_EQ(to("GET", "/v1/models/org/name")->argument, "org/name");
  for (const char* path :
       {"/", "/v1", "/v1/completions/", "//v1/models", "/v1/models/", "/v1/embeddings", "/V1/models", "/health/"}) {
    EXPECT_EQ(to("GET", path).error().http_status, 404) << path;
  }
  const auto wrong = to("GET", "/v1/completions");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().http_status, 405);
  EXPECT_EQ(wrong.error().headers.at(0), (std::pair<std::string, std::string>{"Allow", "POST, OPTIONS"}));
  EXPECT_EQ(to("DELETE", "/health").error().headers.at(0).second, "GET, HEAD, OPTIONS");
  EXPECT_EQ(to("HEAD", "/tokenize").error().http_status, 405);
}

TEST(Router, KeysGuardAllButHealthMetricsAndPreflights) {  // case 40
  const std::vector<std::string> keys{"first", "secret"};
  for (const char* path :
       {"/v1/models", "/v1/completions/", "//v1/models", "/nothing", "/version", "/load", "/ping", "/v1/models/M"}) {
    EXPECT_EQ(to("GET", path, "", keys).error().http_status, 401) << path;
    EXPECT_EQ(to("GET", path, "Bearer wrong", keys).error().http_status, 401) << path;
  }
  EXPECT_EQ(to("POST", "/tokenize", "", keys).error().code, "invalid_api_key");
  EXPECT_TRUE(to("GET", "/health", "", keys));
  EXPECT_TRUE(to("GET", "/metrics", "", keys));
  EXPECT_EQ(to("OPTIONS", "/v1/chat/completions", "", keys)->endpoint, Endpoint::kPreflight);
  for (const char* right : {"Bearer secret", "bearer secret", "BEARER first", "Bearer   secret"})
    EXPECT_TRUE(to("GET", "/v1/models", right, keys)) << right;
  for (const char* wrong : {"secret", "Basic secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secrett",
                            "Bearer secret x", "Bearer SECRET"}) {
    EXPECT_FALSE(to("GET", "/v1/models", wrong, keys)) << wrong;
  }
}

TEST(DecodePath, Targets) {
  EXPECT_EQ(decode_path("/v1/models?x=1"), "/v1/models");
  EXPECT_EQ(decode_path("/v1/models/a%20b"), "/v1/models/a b");
  EXPECT_EQ(decode_path("//v1/models"), "//v1/models");
  EXPECT_EQ(decode_path("http://host:1/health"), "/health");
  for (const char* bad : {"", "health", "/%zz", "/%", "/a b"}) EXPECT_EQ(decode_path(bad), std::nullopt) << bad;
}

TEST(Sse, Framing) {
  std::string out;
  append_sse(out, "{\"a\":1}");
  append_sse(out, kSseDone);
  EXPECT_EQ(out, "data: {\"a\":1}\n\ndata: [DONE]\n\n");
  std::string chunk;
  append_chunk(chunk, std::string(26, 'x'));
  EXPECT_EQ(chunk, "1a\r\n" + std::string(26, 'x') + "\r\n");
}

TEST(Head, Framings) {
  HttpResponse response;
  response.body = "{}";
  EXPECT_EQ(format_head(response, BodyFraming::kContentLength, true),
            "HTTP/1.1 200 OK\r\nServer: lockstep\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: "
            "keep-alive\r\n\r\n");
  response.content_type = "text/event-stream";
  EXPECT_EQ(format_head(response, BodyFraming::kChunked, false),
            "HTTP/1.1 200 OK\r\nServer: lockstep\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "
            "chunked\r\nConnection: close\r\n\r\n");
  response.status = 204;
  EXPECT_EQ(format_head(response, BodyFraming::kContentLength, true).find("Content-Length"), std::string::npos);
}

TEST(Metrics, LabelsAreEscapedAndLinesAreReal) {  // case 42
  EXPECT_EQ(escape_label("a \"b\\c d\n"), "a \\\"b\\\\c d\\n");
  RequestCounters counters;
  for (int i = 0; i < 3; ++i) counters.finished(request::FinishReason::kLength);
  MetricsInput input;
  input.model_name = "a \"b\\c d";
  input.engine.num_blocks = 8;
  input.engine.num_free_blocks = 6;
  input.engine.num_cached_blocks = 2;
  input.engine.generation_tokens = 21;
  input.engine.prefix_cache_hits = 5;
  const std::string text = metrics_text(input, counters, RequestHistograms());
  const std::string labels = "{model_name=\"a \\\"b\\\\c d\",engine=\"0\"";
  EXPECT_NE(text.find("\nvllm:kv_cache_usage_perc" + labels + "} 0.25\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nvllm:generation_tokens_total" + labels + "} 21\n"), std::string::npos);
  EXPECT_NE(text.find("\nvllm:request_success_total" + labels + ",finished_reason=\"length\"} 3\n"), std::string::npos);
  EXPECT_NE(text.find("\nvllm:prefix_cache_hits_total" + labels + "} 5\n"), std::string::npos);
  EXPECT_NE(text.find("\nvllm:gpu_prefix_cache_hits_total" + labels + "} 5\n"), std::string::npos);
  EXPECT_NE(text.find("\nlockstep:kv_blocks_free" + labels + "} 4\n"), std::string::npos);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(text.find("\\n#"), std::string::npos);
}

TEST(Errors, MapToHttpInOnePlace) {
  EXPECT_EQ(api_error(Status(StatusCode::kInvalidArgument, "m")).http_status, 400);
  EXPECT_EQ(api_error(Status(StatusCode::kResourceExhausted, "m")).http_status, 429);
  EXPECT_EQ(api_error(Status(StatusCode::kResourceExhausted, "m")).headers.at(0).first, "Retry-After");
  EXPECT_EQ(api_error(Status(StatusCode::kUnavailable, "m")).http_status, 503);
  EXPECT_EQ(api_error(Status(StatusCode::kInternal, "m")).http_status, 500);
  EXPECT_EQ(run_error(request::FinishReason::kDeadline, {}).code, "deadline");
  EXPECT_EQ(run_error(request::FinishReason::kError, Status(StatusCode::kInternal, "nan")).message, "nan");
  EXPECT_EQ(dump(to_json(bad_request("", "m"))),
            R"({"error":{"message":"m","type":"invalid_request_error","param":null,"code":null}})");
  EXPECT_EQ(quote_text("a\nb"), "'a?b'");
  EXPECT_EQ(quote_text(std::string(100, 'x')), "'" + std::string(64, 'x') + "...'");
}

TEST(Options, AreChecked) {
  ServerOptions options;
  EXPECT_FALSE(validate(options).ok());
  options.served_model_names = {"M"};
  EXPECT_TRUE(validate(options).ok()) << validate(options).to_string();
  const auto refuses = [&](auto change) {
    ServerOptions changed = options;
    change(changed);
    return !validate(changed).ok();
  };
  EXPECT_TRUE(refuses([](ServerOptions& o) { o.api_keys = {""}; }));
  EXPECT_TRUE(refuses([](ServerOptions& o) { o.max_body_bytes = 0; }));
  EXPECT_TRUE(refuses([](ServerOptions& o) { o.grace_seconds = -1; }));
  EXPECT_TRUE(refuses([](ServerOptions& o) { o.io_threads = 0; }));
  EXPECT_TRUE(refuses([](ServerOptions& o) { o.allowed_origin = "a\r\nX: y"; }));
  options.api_keys = {"secret"};
  EXPECT_EQ(to_string(options).find("secret"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::server
