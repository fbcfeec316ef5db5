// SPDX-License-Identifier: Apache-2.0
// For the tests of this room: an engine whose events a test chooses, and an HTTP client over loopback.
#pragma once

#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/api_error.h"
#include "server/server.h"
#include "text/text_model.h"

namespace lockstep::server::testing {

/// What a scripted engine does with a request.
struct Script {
  std::vector<request::Event> events;
  std::chrono::milliseconds delay{0};  ///< before each event
};

request::Event event(std::vector<int32_t> ids, request::FinishReason reason = request::FinishReason::kNone);
/// `count` times the same token, one event each, ended by kLength.
Script repeat(int32_t id, int count, std::chrono::milliseconds delay = {});

class ScriptedEngine final : public EnginePort {
 public:
  using Play = std::function<Expected<Script>(const request::Request&)>;
  explicit ScriptedEngine(Play play) : play_(std::move(play)) {}

  Expected<std::unique_ptr<RunningRequest>> submit(request::Request request, engine::EventCallback on_event) override;
  void flush_prefix_cache() override { ++flushed; }
  void drain() override { draining = true; }
  bool healthy() const override { return alive && !draining; }
  engine::EngineStats stats() const override;
  int64_t max_model_len() const override { return 256; }
  int64_t vocab_size() const override { return 151936; }
  int64_t block_size() const override { return 16; }

  std::atomic<bool> alive{true}, draining{false};
  std::atomic<int> running{0};  ///< handles that live
  std::atomic<int> submitted{0};
  std::atomic<int> flushed{0};
  request::Request last;  ///< of the latest submit; read it when nothing runs

 private:
  Play play_;
};

/// The Qwen3 tokenizer and template with tiny-qwen3's configuration.
std::shared_ptr<const text::TextModel> qwen3();

struct Reply {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;

  Json json() const { return Json::parse(body, nullptr, false); }
  std::string error_code() const;
  std::string error_param() const;
  /// The payloads of a stream's events.
  std::vector<std::string> events() const;
};

/// One connection.
class Client final {
 public:
  explicit Client(uint16_t port);
  void send(std::string_view bytes);
  /// The next answer; status 0 if the server has closed.
  Reply read(bool head = false);
  Reply request(const std::string& method, const std::string& path, const std::string& body = "",
                const std::string& headers = "");
  Reply post(const std::string& path, const std::string& body) { return request("POST", path, body); }
  /// Reads until `text` has come; false if the connection ended before.
  bool read_until(std::string_view text);
  void close() { socket_.close(); }
  boost::asio::ip::tcp::socket& socket() { return socket_; }

 private:
  boost::asio::io_context context_;
  boost::asio::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
};

/// A server on a free port over a scripted engine.
class TestServer final {
 public:
  explicit TestServer(ScriptedEngine::Play play, const std::function<void(ServerOptions&)>& change = {});
  ScriptedEngine& engine() { return *engine_; }
  Server& server() { return *server_; }
  Client client() const { return Client(server_->port()); }
  Reply post(const std::string& path, const std::string& body) const { return client().post(path, body); }
  Reply get(const std::string& path) const { return client().request("GET", path); }

 private:
  ScriptedEngine* engine_ = nullptr;
  std::unique_ptr<Server> server_;
};

/// Waits up to 10 s.
bool eventually(const std::function<bool()>& condition);

}  // namespace lockstep::server::testing
