// SPDX-License-Identifier: Apache-2.0
// A backend without maths, for tests of scheduler, engine and server in milliseconds. Its pages hold token ids; what it
// samples is a hash of the ids that it finds in the row's pages, in order of position: a wrong, stale or shared page
// changes the stream. Steps run when they are waited for, so arguments that are changed too early change it too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "backend/backend.h"

namespace lockstep::backend {

struct FakeOptions {
  int64_t vocab_size = 1000;
  int64_t max_model_len = 4096;
  std::vector<int64_t> batch_sizes;                           ///< empty = any
  std::vector<int64_t> block_sizes = {16, 32, 64, 128, 256};  ///< any are fine: pages hold ids only
  double step_delay_s = 0;             ///< a step takes at least this long, as if a device ran it
  double token_delay_s = 0;            ///< and this for each of its tokens
  int64_t kv_limit_bytes = INT64_MAX;  ///< allocate_kv of more fails with kResourceExhausted
  Status warm_up_result;               ///< what warm_up() returns

  /// The step fails in wait().
  std::function<bool(uint64_t step_id)> fail_step;
  /// The row's status is non-finite; the argument is all its tokens.
  std::function<bool(std::span<const int32_t> tokens)> non_finite;
  /// An additional check in validate().
  std::function<Status(const step::StepArgs&)> refuse;
};

/// Elements of the fake's K/V: one layer, one head of 16, so 64 bytes a token in bf16.
std::unique_ptr<Backend> make_fake_backend(FakeOptions options);

}  // namespace lockstep::backend
