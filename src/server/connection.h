// SPDX-License-Identifier: Apache-2.0
// One client connection: HTTP/1.1 with keep-alive and pipelining, one request at a time.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/answer.h"
#include "server/generation.h"
#include "server/http.h"
#include "server/router.h"
#include "server/server_state.h"

namespace lockstep::server {

/// Everything but the public functions runs on the connection's strand. While a request is in work the socket is
/// watched: a client that goes (also one that closes only its sending side) ends its generation. Answers are written
/// piece by piece, each with its own time limit, so a slow reader costs no thread and no more memory than its own
/// tokens.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, std::shared_ptr<ServerState> state);
  ~Connection();

  /// Starts serving; the connection keeps itself alive.
  void start();
  /// Answers 503 and closes: there are too many connections.
  void start_refusing();
  /// Any thread: closes if idle, else after the answer in work.
  void drain();
  /// Any thread: ends a generation in work with an error that the client sees, then closes.
  void abort();
  /// Any thread: closes the socket now.
  void close();

 private:
  template <class T>
  using awaitable = boost::asio::awaitable<T>;

  awaitable<void> run();
  awaitable<void> refuse();
  awaitable<void> linger();

  // reading (connection_read.cpp)
  awaitable<bool> wait_for_request();
  awaitable<std::optional<HttpRequest>> read_request();

  // answering (connection.cpp, connection_generate.cpp)
  awaitable<void> handle(const HttpRequest& request);
  awaitable<void> generate(const HttpRequest& request, Endpoint endpoint);
  awaitable<void> run_generation(const HttpRequest& request, Generation& generation);
  awaitable<void> stream_answer(const HttpRequest& request, Generation& generation);
  awaitable<void> whole_answer(const HttpRequest& request, Generation& generation);
  awaitable<void> watch();
  void count_ends(const std::vector<ChoiceDelta>& deltas);

  // writing (connection_write.cpp)
  awaitable<void> respond(const HttpRequest& request, HttpResponse response, bool head = false);
  awaitable<bool> write(std::string_view bytes);
  void add_cors(const HttpRequest& request, HttpResponse& response) const;
  void fail_connection();

  boost::beast::tcp_stream stream_;
  std::shared_ptr<ServerState> state_;
  boost::beast::flat_buffer buffer_;  // read but not yet parsed: may hold pipelined requests
  std::shared_ptr<Mailbox> mailbox_;  // of the generation in work
  bool keep_alive_ = true;            // another request may follow on this connection
  bool idle_ = true;                  // no request is in work
  bool gone_ = false;                 // the client has closed, or the socket failed
  bool aborted_ = false;              // abort() was called
  bool watching_ = false;
};

}  // namespace lockstep::server
