// SPDX-License-Identifier: Apache-2.0
// What all connections of one server share.
#pragma once

#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "server/engine_port.h"
#include "server/metrics.h"
#include "server/model_info.h"
#include "server/options.h"
#include "text/text_model.h"

namespace lockstep::server {

class Connection;

/// The model, once it is loaded.
struct Backing {
  std::unique_ptr<EnginePort> port;
  std::shared_ptr<const text::TextModel> text;
  ModelInfo info;
};

/// Thread-safe.
class ServerState final {
 public:
  explicit ServerState(ServerOptions server_options)
      : options(std::move(server_options)), workers(static_cast<size_t>(options.worker_threads)) {}

  const ServerOptions options;
  boost::asio::thread_pool workers;  ///< for CPU-bound parts of requests, so that the network threads stay quick
  std::atomic<bool> draining{false};
  std::atomic<int64_t> load{0};  ///< generation requests in work
  RequestCounters counters;
  RequestHistograms histograms;

  /// nullptr until the model is ready.
  std::shared_ptr<const Backing> backing() const;
  void set_backing(std::shared_ptr<const Backing> backing);

  void add(const std::shared_ptr<Connection>& connection);
  /// Calls `when_empty` if this was the last one.
  void remove(Connection* connection);
  void for_each(const std::function<void(Connection&)>& action);
  size_t num_connections() const;
  /// Called by remove() on the thread that ends the last connection.
  std::function<void()> when_empty;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Backing> backing_;                                  // guarded by mutex_
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections_;  // guarded by mutex_
};

}  // namespace lockstep::server
