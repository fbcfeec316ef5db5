// SPDX-License-Identifier: Apache-2.0
#include "server/testing.h"

#include <algorithm>
#include <filesystem>

namespace lockstep::server::testing {

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {

/// Plays a script on a thread of its own; the destructor waits for the thread, so no event comes afterwards.
class Player final : public RunningRequest {
 public:
  Player(Script script, engine::EventCallback on_event, std::atomic<int>& running)
      : running_(running),
        thread_([script = std::move(script), on_event = std::move(on_event)](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any wake;
          for (const request::Event& next : script.events) {
            std::unique_lock lock(mutex);
            wake.wait_for(lock, stop, script.delay, [] { return false; });
            if (stop.stop_requested()) return;
            on_event(next);
          }
        }) {
    ++running_;
  }
  ~Player() override {
    thread_.request_stop();
    thread_.join();
    --running_;
  }

 private:
  std::atomic<int>& running_;
  std::jthread thread_;
};

}  // namespace

request::Event event(std::vector<int32_t> ids, request::FinishReason reason) {
  request::Event out;
  out.new_token_ids = std::move(ids);
  out.finish_reason = reason;
  return out;
}

Script repeat(int32_t id, int count, std::chrono::milliseconds delay) {
  Script script;
  for (int i = 1; i <= count; ++i) {
    script.events.push_back(event({id}, i == count ? request::FinishReason::kLength : request::FinishReason::kNone));
  }
  script.delay = delay;
  return script;
}

Expected<std::unique_ptr<RunningRequest>> ScriptedEngine::submit(request::Request request,
                                                                 engine::EventCallback on_event) {
  LOCKSTEP_ASSIGN_OR_RETURN(Script script, play_(request));
  ++submitted;
  last = std::move(request);
  return std::make_unique<Player>(std::move(script), std::move(on_event), running);
}

engine::EngineStats ScriptedEngine::stats() const {
  engine::EngineStats stats;
  stats.num_running = running;
  stats.num_blocks = 8;
  stats.num_free_blocks = 6;
  stats.prompt_tokens = 12;
  return stats;
}

std::shared_ptr<const text::TextModel> qwen3() {
  static const auto model =
      text::TextModel::load(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/golden/tiny-qwen3",
                            {.tokenizer = std::filesystem::path(LOCKSTEP_TESTDATA_DIR) / "qwen3-tokenizer"});
  EXPECT_TRUE(model) << model.error().to_string();
  return *model;
}

std::string Reply::error_code() const {
  const Json body_json = json();
  const auto& code = body_json.at("error").at("code");
  return code.is_null() ? "" : code.get<std::string>();
}

std::string Reply::error_param() const {
  const Json body_json = json();
  const auto& param = body_json.at("error").at("param");
  return param.is_null() ? "" : param.get<std::string>();
}

std::vector<std::string> Reply::events() const {
  std::vector<std::string> out;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    EXPECT_EQ(body.compare(at, 6, "data: "), 0) << body.substr(at, 40);
    if (end == std::string::npos) break;
    out.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return out;
}

Client::Client(uint16_t port) : socket_(context_) {
  socket_.connect({asio::ip::make_address("127.0.0.1"), port});
  socket_.set_option(asio::ip::tcp::no_delay(true));
}

void Client::send(std::string_view bytes) {
  boost::system::error_code ignored;  // a server that refuses may close early; read() shows its answer
  asio::write(socket_, asio::buffer(bytes.data(), bytes.size()), ignored);
}

Reply Client::read(bool head) {
  http::response_parser<http::string_body> parser;
  parser.body_limit(uint64_t{1} << 30);
  parser.skip(head);
  boost::system::error_code error;
  http::read(socket_, buffer_, parser, error);
  Reply reply;
  if (error) return reply;
  reply.status = static_cast<int>(parser.get().result_int());
  for (const auto& field : parser.get()) {
    std::string name(field.name_string().data(), field.name_string().size());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    reply.headers[name] = std::string(field.value().data(), field.value().size());
  }
  reply.body = parser.get().body();
  return reply;
}

Reply Client::request(const std::string& method, const std::string& path, const std::string& body,
                      const std::string& headers) {
  send(fmt::format("{} {} HTTP/1.1\r\nHost: x\r\n{}Content-Length: {}\r\n\r\n{}", method, path, headers, body.size(),
                   body));
  return read(method == "HEAD");
}

bool Client::read_until(std::string_view text) {
  std::string seen;
  boost::system::error_code error;
  for (char c = 0; !error && seen.find(text) == std::string::npos; seen += c)
    asio::read(socket_, asio::buffer(&c, 1), error);
  return !error;
}

TestServer::TestServer(ScriptedEngine::Play play, const std::function<void(ServerOptions&)>& change) {
  ServerOptions options;
  options.port = 0;
  options.served_model_names = {"M"};
  options.handle_signals = false;
  if (change) change(options);
  auto server = Server::start(options);
  EXPECT_TRUE(server) << server.error().to_string();
  server_ = *std::move(server);
  auto engine = std::make_unique<ScriptedEngine>(std::move(play));
  engine_ = engine.get();
  server_->set_ready(std::move(engine), qwen3());
}

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace lockstep::server::testing
