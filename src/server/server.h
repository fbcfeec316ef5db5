// SPDX-License-Identifier: Apache-2.0
// The HTTP server. It listens before the model is loaded, so that /health can say "not yet".
//
//   auto server = Server::start(options);          // listens; everything but /version answers 503
//   ... load the model, create the engine ...
//   (*server)->set_ready(*engine, text_model);     // from now on requests are served
//   (*server)->wait();                             // until SIGTERM or drain(); running requests have been finished
//   then server->reset();  engine.reset();              // in this order
#pragma once

#include <cstdint>
#include <memory>

#include "engine/engine.h"
#include "server/engine_port.h"
#include "server/options.h"
#include "text/text_model.h"

namespace lockstep::server {

class Server final {
 public:
  /// Binds, listens and starts the network threads. Errors: kInvalidArgument (an option, an unknown host), kUnavailable
  /// (the port is taken).
  static Expected<std::unique_ptr<Server>> start(ServerOptions options);
  /// Closes all connections at once and joins the threads.
  ~Server();

  /// The port that it listens on.
  uint16_t port() const;
  /// "http://127.0.0.1:8000"
  std::string url() const;

  /// Once. `engine` must outlive the server.
  void set_ready(engine::Engine& engine, std::shared_ptr<const text::TextModel> text);
  void set_ready(std::unique_ptr<EnginePort> port, std::shared_ptr<const text::TextModel> text);

  /// Stops accepting, lets running requests finish within grace_seconds and ends the rest with an error frame. Any
  /// thread; returns at once. SIGTERM and SIGINT do the same; a second signal ends the process at once with 128 + its
  /// number, and so does the first (with 0) while the model is being loaded.
  void drain();
  /// Blocks until a drain is complete.
  void wait();

 private:
  Server();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::server
