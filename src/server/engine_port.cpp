// SPDX-License-Identifier: Apache-2.0
#include "server/engine_port.h"

#include <utility>

namespace lockstep::server {

namespace {

class Running final : public RunningRequest {
 public:
  explicit Running(engine::RequestHandle handle) : handle_(std::move(handle)) {}

 private:
  engine::RequestHandle handle_;
};

class Port final : public EnginePort {
 public:
  explicit Port(engine::Engine& engine) : engine_(engine), vocab_size_(engine.backend().capabilities().vocab_size) {}

  Expected<std::unique_ptr<RunningRequest>> submit(request::Request request, engine::EventCallback on_event) override {
    LOCKSTEP_ASSIGN_OR_RETURN(engine::RequestHandle handle, engine_.submit(std::move(request), std::move(on_event)));
    return std::make_unique<Running>(std::move(handle));
  }
  void flush_prefix_cache() override { engine_.flush_prefix_cache(); }
  void drain() override { engine_.drain(); }
  bool healthy() const override { return engine_.healthy(); }
  engine::EngineStats stats() const override { return engine_.stats(); }
  int64_t max_model_len() const override { return engine_.options().max_model_len; }
  int64_t vocab_size() const override { return vocab_size_; }
  int64_t block_size() const override { return engine_.options().block_size; }

 private:
  engine::Engine& engine_;
  int64_t vocab_size_;
};

}  // namespace

std::unique_ptr<EnginePort> make_engine_port(engine::Engine& engine) { return std::make_unique<Port>(engine); }

}  // namespace lockstep::server
