// SPDX-License-Identifier: Apache-2.0
// GET /metrics: Prometheus' text format 0.0.4, with the names that vLLM's users and routers read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "server/request_metrics.h"

namespace lockstep::server {

/// What the server itself counts. Any thread.
class RequestCounters final {
 public:
  void finished(request::FinishReason reason) { counts_[index(reason)].fetch_add(1, std::memory_order_relaxed); }
  uint64_t count(request::FinishReason reason) const { return counts_[index(reason)].load(std::memory_order_relaxed); }

 private:
  static size_t index(request::FinishReason reason) { return static_cast<size_t>(reason); }
  std::array<std::atomic<uint64_t>, 6> counts_{};
};

struct MetricsInput {
  std::string model_name;
  engine::EngineStats engine;
  int64_t block_size = 0;
};

std::string metrics_text(const MetricsInput& input, const RequestCounters& counters,
                         const RequestHistograms& histograms);

/// A label's value: backslash, quote and line feed escaped.
std::string escape_label(std::string_view value);

}  // namespace lockstep::server
