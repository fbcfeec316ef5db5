// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>

#include "server/connection.h"

namespace lockstep::server {

namespace asio = boost::asio;
namespace http = boost::beast::http;
constexpr auto kUse = asio::as_tuple(asio::use_awaitable);

namespace {

std::chrono::nanoseconds seconds(double value) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(value));
}

std::string to_std(boost::beast::string_view text) { return {text.data(), text.size()}; }

/// How much later the stream's own limit closes the socket: for a timer that fires just between two reads.
constexpr std::chrono::seconds kBackstop{1};

/// Ends a read whose time is up. The stream's own time limit would close the socket, and 408 could not be sent.
class ReadLimit final {
 public:
  /// On the stream's strand; `stream` must outlive what its strand runs.
  ReadLimit(boost::beast::tcp_stream& stream, std::shared_ptr<void> owner, std::chrono::nanoseconds limit)
      : timer_(stream.get_executor(), limit) {
    timer_.async_wait([&stream, owner = std::move(owner), phase = phase_](const boost::system::error_code&) {
      if (*phase != Phase::kReading) return;  // read in time, also when this call was under way already
      *phase = Phase::kTimeUp;
      stream.cancel();
    });
  }
  /// A later expiry does nothing.
  void done() {
    if (*phase_ == Phase::kReading) *phase_ = Phase::kDone;
    timer_.cancel();
  }
  bool time_is_up() const { return *phase_ == Phase::kTimeUp; }
  ~ReadLimit() { done(); }
  ReadLimit(const ReadLimit&) = delete;
  ReadLimit& operator=(const ReadLimit&) = delete;

 private:
  enum class Phase { kReading, kDone, kTimeUp };
  std::shared_ptr<Phase> phase_ = std::make_shared<Phase>(Phase::kReading);
  asio::steady_timer timer_;
};

ApiError too_slow(const ServerOptions& options) {
  ApiError answer;
  answer.http_status = 408;
  answer.message = fmt::format("the request was not whole after {} s (--read-timeout)", options.read_timeout_s);
  answer.code = "request_timeout";
  return answer;
}

/// The answer to a request that can't be read; nullopt: the client went away.
std::optional<ApiError> read_error(const boost::system::error_code& error, const ServerOptions& options) {
  ApiError answer;
  if (error == http::error::body_limit) {
    answer.http_status = 413;
    answer.message = fmt::format("the body has more than {} bytes (--max-body-bytes)", options.max_body_bytes);
    answer.code = "body_too_large";
  } else if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    answer.http_status = 431;
    answer.message = fmt::format("the header has more than {} bytes", options.max_header_bytes);
    answer.code = "header_too_large";
  } else if (error == http::error::bad_transfer_encoding) {
    answer.message = "the transfer encoding is not supported";
  } else if (error.category() == http::make_error_code(http::error::bad_method).category() &&
             error != http::error::end_of_stream && error != http::error::partial_message) {
    answer.message = "the request is not valid HTTP/1.1";
  } else {
    return std::nullopt;
  }
  return answer;
}

}  // namespace

/// Waits for the first byte of the next request.
asio::awaitable<bool> Connection::wait_for_request() {
  if (buffer_.size() > 0) co_return true;
  stream_.expires_after(seconds(state_->options.idle_timeout_s));
  const auto [error, size] = co_await stream_.async_read_some(buffer_.prepare(4096), kUse);
  buffer_.commit(size);
  co_return !error && size > 0;
}

asio::awaitable<std::optional<HttpRequest>> Connection::read_request() {
  const ServerOptions& options = state_->options;
  http::request_parser<http::string_body> parser;
  parser.header_limit(static_cast<uint32_t>(options.max_header_bytes));
  parser.body_limit(static_cast<uint64_t>(options.max_body_bytes));
  const auto read_timeout = seconds(options.read_timeout_s);
  stream_.expires_after(read_timeout + kBackstop);
  ReadLimit limit(stream_, shared_from_this(), read_timeout);
  auto [error, ignored] = co_await http::async_read_header(stream_, buffer_, parser, kUse);
  const auto& header = parser.get();
  if (!error && boost::beast::iequals(header[http::field::expect], "100-continue")) {
    if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return std::nullopt;
    stream_.expires_after(read_timeout + kBackstop);
  }
  if (!error && !parser.is_done()) std::tie(error, ignored) = co_await http::async_read(stream_, buffer_, parser, kUse);
  limit.done();

  HttpRequest request;
  if (error) {
    keep_alive_ = false;
    const auto answer = limit.time_is_up() ? too_slow(options) : read_error(error, options);
    if (answer) co_await respond(request, error_response(*answer));
    co_return std::nullopt;
  }
  request.method = to_std(header.method_string());
  request.keep_alive = header.keep_alive();
  request.chunked_answers = header.version() >= 11;
  request.authorization = to_std(header[http::field::authorization]);
  request.origin = to_std(header[http::field::origin]);
  request.requested_headers = to_std(header[http::field::access_control_request_headers]);
  auto path = decode_path(to_std(header.target()));
  const bool options_star = request.method == "OPTIONS" && header.target() == "*";
  if (!path && !options_star) {
    keep_alive_ = false;
    co_await respond(request, error_response(bad_request("", "the request target is not valid")));
    co_return std::nullopt;
  }
  request.path = path.value_or("*");
  request.body = std::move(parser.get().body());
  co_return request;
}

}  // namespace lockstep::server
