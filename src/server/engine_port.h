// SPDX-License-Identifier: Apache-2.0
// What the server needs of an engine. One implementation stands before engine::Engine; tests have another, whose tokens
// they choose.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "engine/engine.h"

namespace lockstep::server {

/// A submitted request. Destroying it ends the request; no event is delivered afterwards.
class RunningRequest {
 public:
  virtual ~RunningRequest() = default;
};

class EnginePort {
 public:
  virtual ~EnginePort() = default;
  /// As engine::Engine::submit. Thread-safe; events come on another thread, possibly before this returns.
  virtual Expected<std::unique_ptr<RunningRequest>> submit(request::Request request,
                                                           engine::EventCallback on_event) = 0;
  virtual void flush_prefix_cache() = 0;
  virtual void drain() = 0;
  virtual bool healthy() const = 0;
  virtual engine::EngineStats stats() const = 0;
  virtual int64_t max_model_len() const = 0;
  virtual int64_t vocab_size() const = 0;
  virtual int64_t block_size() const = 0;
};

/// `engine` must outlive the port.
std::unique_ptr<EnginePort> make_engine_port(engine::Engine& engine);

}  // namespace lockstep::server
