// SPDX-License-Identifier: Apache-2.0
// What the tests of the suite share.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "subject.h"

namespace lockstep::conformance {

using backend::testing::Ask;
using backend::testing::GenerateOptions;
using backend::testing::Request;
using backend::testing::StepDriver;
using backend::testing::StepResult;
using backend::testing::Stream;
using step::testing::RowSpec;
using step::testing::StagedStep;

/// Patterns of poison: a quiet NaN in bf16 and f32 alike, and a large number that is an impossible id, length or page.
inline constexpr std::array<uint32_t, 2> kPoisons = {0x7fc07fc0u, 0x7f7f7f7fu};

/// A backend with a driver over buffers of its capacity.
struct Engine {
  std::unique_ptr<backend::Backend> backend;
  std::unique_ptr<StepDriver> driver;
  EngineSetup setup;

  GenerateOptions options() const {
    GenerateOptions out;
    out.block_size = setup.shape.block_size;
    out.num_blocks = setup.num_blocks;
    return out;
  }
  std::vector<Stream> generate(const std::vector<Request>& requests) { return generate(requests, options()); }
  std::vector<Stream> generate(const std::vector<Request>& requests, const GenerateOptions& options);
  StepResult run(const StagedStep& staged, const Ask& ask = {});
};

EngineSetup default_setup(const std::string& model);
Engine make_engine(const EngineSetup& setup);

/// `count` requests with different prompts of 1..longest tokens, greedy and sampled in turn, all with logprobs.
std::vector<Request> make_requests(const Engine& engine, int64_t count, int64_t longest, int64_t max_tokens,
                                   uint32_t seed);
/// `count` ids from the vocabulary.
std::vector<int32_t> random_ids(const Engine& engine, int64_t count, uint32_t seed);
std::vector<int32_t> pages(int32_t first, int32_t count);

/// Tokens, logprobs and best ids equal, in bits.
void expect_same_bits(const Stream& actual, const Stream& expected, const std::string& what);
void expect_same_bits(const std::vector<Stream>& actual, const std::vector<Stream>& expected, const std::string& what);
/// Equal in bits, NaN included.
bool same_bits(const float* a, const float* b, int64_t count);

/// Each request alone, one after the other, in the same pool.
std::vector<Stream> alone(Engine& engine, const std::vector<Request>& requests);

/// Moves all arguments of a step to read-only memory that ends before an inaccessible page: a read past a view is a
/// fault, and so is a write. Must outlive the step.
class GuardedArgs {
 public:
  explicit GuardedArgs(StagedStep& staged);
  ~GuardedArgs();
  GuardedArgs(const GuardedArgs&) = delete;
  GuardedArgs& operator=(const GuardedArgs&) = delete;

 private:
  template <class T>
  void guard(View<const T>& view);
  std::vector<std::pair<void*, size_t>> mappings_;
};

}  // namespace lockstep::conformance
