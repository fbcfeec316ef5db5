// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

#include "server/connection.h"

namespace lockstep::server {

namespace asio = boost::asio;
constexpr auto kUse = asio::as_tuple(asio::use_awaitable);

namespace {

/// Small enough that the time limit of a write is about progress, not about the whole answer.
constexpr size_t kPiece = 64 << 10;

}  // namespace

void Connection::add_cors(const HttpRequest& request, HttpResponse& response) const {
  const std::string& allowed = state_->options.allowed_origin;
  if (request.origin.empty() || allowed.empty()) return;
  response.headers.emplace_back("Access-Control-Allow-Origin", allowed);
  if (allowed != "*") response.headers.emplace_back("Vary", "Origin");
}

asio::awaitable<void> Connection::respond(const HttpRequest& request, HttpResponse response, bool head) {
  add_cors(request, response);
  std::string bytes = format_head(response, BodyFraming::kContentLength, keep_alive_);
  if (!head) bytes += response.body;
  co_await write(bytes);
}

/// False if the client takes nothing any more; the connection is closed then.
asio::awaitable<bool> Connection::write(std::string_view bytes) {
  const auto limit = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(state_->options.write_timeout_s));
  while (!bytes.empty() && !gone_) {
    stream_.expires_after(limit);
    const auto [error, size] =
        co_await stream_.async_write_some(asio::buffer(bytes.data(), std::min(bytes.size(), kPiece)), kUse);
    if (error) fail_connection();
    bytes.remove_prefix(size);
  }
  if (!gone_) stream_.expires_never();
  co_return !gone_;
}

void Connection::fail_connection() {
  gone_ = true;
  keep_alive_ = false;
  stream_.close();
  if (mailbox_) mailbox_->wake();
}

}  // namespace lockstep::server
