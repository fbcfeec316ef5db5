// SPDX-License-Identifier: Apache-2.0
#include "server/mailbox.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace lockstep::server {

namespace asio = boost::asio;

Mailbox::Mailbox(asio::any_io_executor strand) : timer_(std::move(strand)) {}

void Mailbox::push(size_t choice, request::Event event) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  const bool first = letters_.empty();
  letters_.push_back({choice, std::move(event), std::chrono::steady_clock::now()});
  // Posted under the lock, so that close() means that nothing is posted any more.
  if (first) asio::post(timer_.get_executor(), [self = shared_from_this()] { self->wake(); });
}

void Mailbox::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  letters_.clear();
}

asio::awaitable<void> Mailbox::wait() {
  while (!woken_) {
    timer_.expires_at(asio::steady_timer::time_point::max());
    co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

void Mailbox::wake() {
  woken_ = true;
  timer_.cancel();
}

std::vector<Mailbox::Letter> Mailbox::take() {
  woken_ = false;
  const std::lock_guard lock(mutex_);
  return std::exchange(letters_, {});
}

}  // namespace lockstep::server
