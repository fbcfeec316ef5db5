// SPDX-License-Identifier: Apache-2.0
// What turns one piece of text into ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace lockstep::tokenizer {

/// Working memory of a model, kept between calls: buffers, and a cache of pieces seen before.
class ModelScratch {
 public:
  virtual ~ModelScratch() = default;
};

/// Immutable, thread-safe; each thread brings a scratch of its own.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::unique_ptr<ModelScratch> make_scratch() const = 0;
  /// Appends the ids of `piece` (not empty). `scratch` must come from this model's make_scratch().
  virtual void encode(std::string_view piece, ModelScratch& scratch, std::vector<int32_t>& out) const = 0;
};

}  // namespace lockstep::tokenizer
