// SPDX-License-Identifier: Apache-2.0
// Activations of a step, allocated once for the largest one. A step uses prefix views.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "loader/spec.h"
#include "model/rope.h"
#include "ops/attention.h"
#include "ops/matmul.h"
#include "tensor/buffer.h"
#include "tensor/view.h"

namespace lockstep::model {

/// Tokens that pass the MLP together. Bounds its scratch (14B: 142 MB instead of 570 MB at 4096 tokens); rows are
/// independent, so the cut changes no bits, and 1024 rows still read each weight panel rarely enough.
inline constexpr int64_t kMlpTokens = 1024;

struct WorkspaceShape {
  int64_t max_tokens = 0;
  int64_t max_rows = 0;
  int64_t max_model_len = 0;  ///< 0: the model's context
  int threads = 1;
  bool int8_activations = true;  ///< some matrix needs quantised rows
};

/// Owned by one backend; used by one step at a time.
class Workspace {
 public:
  /// kResourceExhausted names the buffer.
  static Expected<Workspace> create(const loader::ModelConfig& config, const WorkspaceShape& shape);

  int64_t bytes() const;
  /// Writes every page, so that a step meets no page fault.
  void touch();

  View<float> x;          ///< [max_tokens, hidden]  the residual stream
  View<float> normed;     ///< [max_tokens, hidden]
  View<float> qkv;        ///< [max_tokens, (heads + 2 kv_heads) * head_dim]
  View<float> attended;   ///< [max_tokens, heads * head_dim]
  View<float> projected;  ///< [max_tokens, hidden]
  View<float> gate_up;    ///< [min(max_tokens, kMlpTokens), 2 * intermediate]
  View<float> cos, sin;   ///< [max_tokens, head_dim / 2]
  Rope rope;              ///< of the model at this max_model_len
  ops::QuantizedRows quantized;
  ops::AttentionScratch attention;

 private:
  Buffer storage_;
};

}  // namespace lockstep::model
