// SPDX-License-Identifier: Apache-2.0
// What the conformance suite needs to know about the backend under test. The program that links the suite defines
// subject().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace lockstep::conformance {

/// One backend to be made.
struct EngineSetup {
  std::string model;    ///< one of Subject::models()
  std::string variant;  ///< one of Subject::variants(), "" = the default one
  int threads = 2;      ///< where the backend has such a thing
  backend::StepShape shape;
  int64_t num_blocks = 64;
};

class Subject {
 public:
  virtual ~Subject() = default;
  /// Names of models, the first one the fastest: a vocabulary of at least 64 ids, 512 positions or more.
  virtual std::vector<std::string> models() const = 0;
  /// Ways of execution that must give the same bits (instruction sets); at least {""}.
  virtual std::vector<std::string> variants() const = 0;
  /// Loaded, warmed up, K/V allocated.
  virtual Expected<std::unique_ptr<backend::Backend>> make(const EngineSetup& setup) = 0;
  /// Writes 32-bit words over device memory.
  virtual void fill(const step::DeviceView& view, uint32_t word) = 0;
  /// Writes words over K and V of a page in all layers.
  virtual void fill_block(backend::Backend& backend, int64_t block, uint32_t word) = 0;
  /// True if K and V of the page hold nothing but `word`. Lifts protect_block.
  virtual bool block_holds(backend::Backend& backend, int64_t block, uint32_t word) = 0;
  /// From now on any access to the page should be a fault, where the platform can do that; lifted by fill_block and
  /// block_holds.
  virtual void protect_block(backend::Backend& backend, int64_t block) = 0;
};

Subject& subject();

}  // namespace lockstep::conformance
