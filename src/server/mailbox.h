// SPDX-License-Identifier: Apache-2.0
// Hands events from the engine's thread to a connection's coroutine. The engine never waits for a connection: it locks
// for a push and posts.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "request/request.h"

namespace lockstep::server {

class Mailbox final : public std::enable_shared_from_this<Mailbox> {
 public:
  struct Letter {
    size_t choice = 0;
    request::Event event;
    std::chrono::steady_clock::time_point when;  ///< of push()
  };

  /// `strand` is where the coroutine runs.
  explicit Mailbox(boost::asio::any_io_executor strand);

  /// Any thread. Dropped after close(). What is kept is bounded by what the request may generate.
  void push(size_t choice, request::Event event);
  /// Any thread. Nothing is posted to the strand afterwards; the strand may go away then.
  void close();

  /// On the strand: returns when a letter is there or wake() was called since the last take().
  boost::asio::awaitable<void> wait();
  /// On the strand: ends a wait() that is going on, or the next one.
  void wake();
  /// On the strand: everything that has arrived, oldest first.
  std::vector<Letter> take();

 private:
  std::mutex mutex_;
  std::vector<Letter> letters_;  // guarded by mutex_
  bool closed_ = false;          // guarded by mutex_
  bool woken_ = false;           // strand only
  boost::asio::steady_timer timer_;
};

}  // namespace lockstep::server
