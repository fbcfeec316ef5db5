// SPDX-License-Identifier: Apache-2.0
#include "server/server.h"

#include <pthread.h>
#include <sched.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "server/connection.h"
#include "server/server_state.h"

namespace lockstep::server {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr auto kUse = asio::as_tuple(asio::use_awaitable);
/// After the grace time: for the error frames of ended requests to reach their clients.
constexpr std::chrono::seconds kFlushTime{2};
/// When accept fails (no file descriptors left) it is tried again after this time.
constexpr std::chrono::milliseconds kAcceptPause{100};

/// Network threads do little, but at once: /health must answer while the engine's threads and other programs have all
/// cores. Real-time order is what holds against other programs too (their own nice values count in their own group
/// only). Where it isn't allowed (CAP_SYS_NICE, RLIMIT_RTPRIO) the thread stays as it is.
void put_first() {
  sched_param lowest{};
  lowest.sched_priority = sched_get_priority_min(SCHED_RR);
  pthread_setschedparam(pthread_self(), SCHED_RR | SCHED_RESET_ON_FORK, &lowest);
}

Expected<tcp::endpoint> resolve(asio::io_context& context, const ServerOptions& options) {
  boost::system::error_code error;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  if (error || found.empty())
    return invalid_argument("the host {} can't be resolved: {}", options.host, error.message());
  return found.begin()->endpoint();
}

Status listen(tcp::acceptor& acceptor, const tcp::endpoint& endpoint, const ServerOptions& options) {
  boost::system::error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return {};
  const char* hint = error == asio::error::address_in_use ? "; choose another port with --port" : "";
  return ::lockstep::error(StatusCode::kUnavailable, "can't listen on {} port {}: {}{}", options.host, options.port,
                           error.message(), hint);
}

}  // namespace

struct Server::Impl {
  explicit Impl(ServerOptions options)
      : state(std::make_shared<ServerState>(std::move(options))),
        control(asio::make_strand(context)),
        acceptor(control),
        signals(control),
        timer(control) {}

  asio::awaitable<void> accept();
  asio::awaitable<void> watch_signals();
  asio::awaitable<void> drain();
  void finish();

  std::shared_ptr<ServerState> state;
  asio::io_context context;
  asio::strand<asio::io_context::executor_type> control;  // acceptor, signals, timer and the drain
  tcp::acceptor acceptor;
  asio::signal_set signals;
  asio::steady_timer timer;
  tcp::endpoint endpoint;
  std::vector<std::thread> threads;
  bool drain_started = false;  // control strand only

  std::mutex mutex;
  std::condition_variable finished_changed;
  bool finished = false;  // guarded by mutex
};

asio::awaitable<void> Server::Impl::accept() {
  while (acceptor.is_open()) {
    auto [error, socket] = co_await acceptor.async_accept(asio::make_strand(context), kUse);
    if (error == asio::error::operation_aborted || !acceptor.is_open()) co_return;
    if (error) {
      asio::steady_timer pause(control, kAcceptPause);
      co_await pause.async_wait(kUse);
      continue;
    }
    const bool full = state->num_connections() >= static_cast<size_t>(state->options.max_connections);
    auto connection = std::make_shared<Connection>(std::move(socket), state);
    if (full) {
      connection->start_refusing();
      continue;
    }
    state->add(connection);
    connection->start();
  }
}

asio::awaitable<void> Server::Impl::watch_signals() {
  for (bool second = false;; second = true) {
    const auto [error, number] = co_await signals.async_wait(kUse);
    if (error) co_return;
    if (second) std::_Exit(128 + number);
    if (state->backing() == nullptr) std::_Exit(0);  // nothing runs yet that could be finished
    log_info("signal {}: finishing running requests within {} s; a second signal exits at once", number,
             state->options.grace_seconds);
    asio::co_spawn(control, [this] { return drain(); }, asio::detached);
  }
}

asio::awaitable<void> Server::Impl::drain() {
  if (std::exchange(drain_started, true)) co_return;
  state->draining = true;
  boost::system::error_code ignored;
  acceptor.close(ignored);
  if (const auto backing = state->backing()) backing->port->drain();
  state->for_each([](Connection& connection) { connection.drain(); });
  const auto wait_until_empty = [this](std::chrono::nanoseconds limit) -> asio::awaitable<void> {
    timer.expires_after(limit);
    if (state->num_connections() > 0) co_await timer.async_wait(kUse);  // cut short when the last connection ends
  };
  co_await wait_until_empty(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(state->options.grace_seconds)));
  if (state->num_connections() > 0) {
    log_warning("ending {} connections: the grace time is over", state->num_connections());
    state->for_each([](Connection& connection) { connection.abort(); });
    co_await wait_until_empty(kFlushTime);
  }
  state->for_each([](Connection& connection) { connection.close(); });
  finish();
}

void Server::Impl::finish() {
  const std::lock_guard lock(mutex);
  finished = true;
  finished_changed.notify_all();
}

Server::Server() = default;

Expected<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  LOCKSTEP_RETURN_IF_ERROR(validate(options));
  std::unique_ptr<Server> server(new Server());
  server->impl_ = std::make_unique<Impl>(std::move(options));
  Impl& impl = *server->impl_;
  const ServerOptions& checked = impl.state->options;
  LOCKSTEP_ASSIGN_OR_RETURN(const tcp::endpoint endpoint, resolve(impl.context, checked));
  LOCKSTEP_RETURN_IF_ERROR(listen(impl.acceptor, endpoint, checked));
  boost::system::error_code ignored;
  impl.endpoint = impl.acceptor.local_endpoint(ignored);
  // Posted, not called: the connection that ends here may be inside for_each's caller, and the timer belongs to the
  // control strand.
  impl.state->when_empty = [&impl] {
    asio::post(impl.control, [&impl] {
      if (impl.drain_started && impl.state->num_connections() == 0) impl.timer.cancel();
    });
  };
  if (checked.handle_signals) {
    impl.signals.add(SIGINT, ignored);
    impl.signals.add(SIGTERM, ignored);
    asio::co_spawn(impl.control, [&impl] { return impl.watch_signals(); }, asio::detached);
  }
  asio::co_spawn(impl.control, [&impl] { return impl.accept(); }, asio::detached);
  for (int i = 0; i < checked.io_threads; ++i) {
    impl.threads.emplace_back([&impl] {
      put_first();
      impl.context.run();
    });
  }
  return server;
}

Server::~Server() {
  if (impl_->threads.empty()) return;  // start() failed
  impl_->state->draining = true;
  asio::post(impl_->control, [this] {
    boost::system::error_code ignored;
    impl_->acceptor.close(ignored);
    impl_->signals.cancel(ignored);
    impl_->timer.cancel();
    impl_->state->for_each([](Connection& connection) { connection.close(); });
  });
  // The network threads end when no connection is left; those may still wait for a worker. Generations are gone with
  // their connections, so no engine thread posts to the context any more.
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->state->workers.join();
}

uint16_t Server::port() const { return impl_->endpoint.port(); }

std::string Server::url() const {
  const std::string& host = impl_->state->options.host;
  return host.find(':') == std::string::npos ? fmt::format("http://{}:{}", host, port())
                                             : fmt::format("http://[{}]:{}", host, port());
}

void Server::set_ready(engine::Engine& engine, std::shared_ptr<const text::TextModel> text) {
  set_ready(make_engine_port(engine), std::move(text));
}

void Server::set_ready(std::unique_ptr<EnginePort> port, std::shared_ptr<const text::TextModel> text) {
  const ServerOptions& options = impl_->state->options;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  auto backing = std::make_shared<Backing>();
  backing->info = {.names = options.served_model_names,
                   .root = options.model_root,
                   .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                   .max_model_len = port->max_model_len(),
                   .vocab_size = port->vocab_size(),
                   .max_choices = options.max_choices,
                   .defaults = text->sampling_defaults()};
  backing->port = std::move(port);
  backing->text = std::move(text);
  impl_->state->set_backing(std::move(backing));
}

void Server::drain() {
  asio::co_spawn(impl_->control, [impl = impl_.get()] { return impl->drain(); }, asio::detached);
}

void Server::wait() {
  std::unique_lock lock(impl_->mutex);
  impl_->finished_changed.wait(lock, [this] { return impl_->finished; });
}

}  // namespace lockstep::server
