// SPDX-License-Identifier: Apache-2.0
// The weights of a decoder, packed. Owned by the model, immutable after loading, then thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/matrix.h"
#include "tensor/buffer.h"
#include "tensor/view.h"

namespace lockstep::loader {

/// A vector of f32: norm weights and biases.
struct Vector {
  Buffer storage;
  int64_t size = 0;

  bool empty() const { return size == 0; }
  View<const float> view() const {
    return empty() ? View<const float>() : View<const float>(storage.as<float>(), {size});
  }
  int64_t bytes() const { return storage.bytes(); }
};

/// The weights of a linear layer, y [m, n] = x [m, k] * W^T + bias. Rows of W are stacked from several tensors (q, k,
/// v; gate and up). Normally one part; tensors of different formats stay apart, each fills its own columns of y.
struct Projection {
  struct Part {
    ops::Matrix matrix;
    int64_t first = 0;  ///< its first column of y
  };
  std::vector<Part> parts;
  Vector bias;  ///< [n] or empty
  int64_t n = 0;
  int64_t k = 0;

  int64_t bytes() const {
    int64_t sum = bias.bytes();
    for (const Part& part : parts) sum += part.matrix.bytes();
    return sum;
  }
};

struct LayerWeights {
  Vector input_norm;           ///< [hidden]
  Projection qkv;              ///< n = (heads + 2 * kv_heads) * head_dim, in this order
  Vector q_norm, k_norm;       ///< [head_dim] or empty
  Projection o;                ///< n = hidden, k = heads * head_dim
  Vector post_attention_norm;  ///< [hidden]
  Projection gate_up;          ///< n = 2 * intermediate, gate first
  Projection down;             ///< n = hidden, k = intermediate
};

struct DecoderWeights {
  ops::Matrix embedding;  ///< [vocab, hidden]
  ops::Matrix lm_head;    ///< [vocab, hidden], or empty: the embedding is the head
  Vector final_norm;      ///< [hidden]
  std::vector<LayerWeights> layers;

  const ops::Matrix& head() const { return lm_head.empty() ? embedding : lm_head; }
  int64_t bytes() const;
};

}  // namespace lockstep::loader
