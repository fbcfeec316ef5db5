// SPDX-License-Identifier: Apache-2.0
#include "server/connection.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "server/endpoints.h"

namespace lockstep::server {

namespace asio = boost::asio;
constexpr auto kUse = asio::as_tuple(asio::use_awaitable);

namespace {

constexpr std::chrono::seconds kLingerTime{2};
/// Read-ahead: holds the largest header plus some pipelined bytes; a body passes through it in pieces.
constexpr size_t kReadAhead = 64 << 10;

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, std::shared_ptr<ServerState> state)
    : stream_(std::move(socket)),
      state_(std::move(state)),
      buffer_(static_cast<size_t>(state_->options.max_header_bytes) + kReadAhead) {
  boost::system::error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
}

Connection::~Connection() {
  if (mailbox_) mailbox_->close();
}

void Connection::start() {
  asio::co_spawn(
      stream_.get_executor(), [self = shared_from_this()] { return self->run(); },
      [self = shared_from_this()](std::exception_ptr failure) {
        // Out of memory is all that can throw; it costs this connection only.
        if (failure) log_error("a connection was closed: out of memory");
        self->state_->remove(self.get());
      });
}

void Connection::start_refusing() {
  asio::co_spawn(stream_.get_executor(), [self = shared_from_this()] { return self->refuse(); }, asio::detached);
}

void Connection::drain() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->keep_alive_ = false;
    if (self->idle_) self->stream_.cancel();
  });
}

void Connection::abort() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->keep_alive_ = false;
    self->aborted_ = true;
    if (self->mailbox_) self->mailbox_->wake();
    if (self->idle_) self->stream_.cancel();
  });
}

void Connection::close() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->aborted_ = true;
    self->fail_connection();
  });
}

asio::awaitable<void> Connection::run() {
  while (keep_alive_) {
    idle_ = true;
    if (!co_await wait_for_request()) {
      stream_.close();  // nothing is owed
      co_return;
    }
    idle_ = false;
    const std::optional<HttpRequest> request = co_await read_request();
    if (!request) break;
    keep_alive_ = keep_alive_ && request->keep_alive && !state_->draining;
    co_await handle(*request);
    if (gone_) co_return;
  }
  co_await linger();
}

asio::awaitable<void> Connection::refuse() {
  HttpRequest request;
  keep_alive_ = false;
  const Status status(StatusCode::kUnavailable,
                      fmt::format("there are {} connections already", state_->options.max_connections));
  co_await respond(request, error_response(api_error(status)));
  co_await linger();
}

/// Closes so that the last answer arrives even if the client is still sending: bytes that arrive after a plain close
/// would reset the connection, and the client could lose what it has not read yet.
asio::awaitable<void> Connection::linger() {
  boost::system::error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  stream_.expires_after(kLingerTime);
  std::array<char, 4096> discarded;
  for (bool open = !ignored && !aborted_; open;) {
    const auto [error, size] = co_await stream_.async_read_some(asio::buffer(discarded), kUse);
    open = !error;
  }
  stream_.close();
}

asio::awaitable<void> Connection::handle(const HttpRequest& request) {
  const ApiResult<Route> found = route(request, state_->options.api_keys);
  if (!found) {
    co_await respond(request, error_response(found.error()), request.method == "HEAD");
    co_return;
  }
  const Endpoint endpoint = found->endpoint;
  const bool generates = endpoint == Endpoint::kCompletions || endpoint == Endpoint::kChatCompletions;
  if (!generates && endpoint != Endpoint::kTokenize && endpoint != Endpoint::kDetokenize) {
    co_await respond(request, answer_quick(*found, request, *state_), found->head);
    co_return;
  }
  if (const auto error = unavailable(*state_)) {
    co_await respond(request, error_response(*error));
    co_return;
  }
  if (generates) {
    co_await generate(request, endpoint);
    co_return;
  }
  const auto backing = state_->backing();
  auto work = [&]() -> asio::awaitable<HttpResponse> { co_return answer_tokenize(endpoint, request.body, *backing); };
  HttpResponse response = co_await asio::co_spawn(state_->workers, work, asio::use_awaitable);
  co_await respond(request, std::move(response));
}

}  // namespace lockstep::server
