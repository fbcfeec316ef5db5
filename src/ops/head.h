// SPDX-License-Identifier: Apache-2.0
// LM head and choice: everything between the final norm's output and the sampled ids. Greedy rows without logprobs
// never materialise logits: the head runs in tiles of the vocabulary and the arg-max of each tile is merged.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "ops/context.h"
#include "ops/matmul.h"
#include "ops/matrix.h"
#include "step/step.h"
#include "tensor/view.h"

namespace lockstep::ops {

/// Booked once for the largest step. Used by one call at a time.
class HeadScratch {
 public:
  /// max_sampled = S at most. Logits are kept only for the rows that need them (10 bytes an id and row), for at least
  /// 32 rows and within about 128 MB; more rows go in several passes over the head.
  static Expected<HeadScratch> create(int threads, int64_t max_sampled, int64_t vocab_size, int64_t hidden);
  ~HeadScratch();
  HeadScratch(HeadScratch&&) noexcept;
  HeadScratch& operator=(HeadScratch&&) noexcept;
  int64_t bytes() const;
  /// Writes every page.
  void touch();

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  HeadScratch();
  std::unique_ptr<Impl> impl_;
};

/// One sampled position.
struct SampledPosition {
  int32_t row;       ///< row of the SamplingView
  int32_t position;  ///< absolute position of the token being chosen (its index in the sequence): the random counter
};

/// Host pointers of the outputs that are asked for; empty views are not. Entry s belongs to position s.
struct HeadOutputs {
  View<int32_t> ids;         // [S]
  View<int32_t> finite;      // [S]  1, or 0 if the logits had NaN or infinity (id is then 0 and must not be used)
  View<float> logprobs;      // [S]
  View<int32_t> top_ids;     // [S, k]
  View<float> top_logprobs;  // [S, k]
  View<float> logits;        // [S, padded_vocab]  raw, padding -inf
};

/// hidden [S, hidden] after the final norm. Sampling as step::SamplingView documents (step.h), bits independent of S,
/// threads, ISA. A row is not finite if any raw logit is NaN or infinite, if `hidden` was, or if its mask forbids every
/// id. Log-probabilities are of the raw logits. Entries that were not asked for (logprobs_k) or are not finite: NaN,
/// ids -1. `quantized` is overwritten; its rows bound a pass. Allocates nothing.
void head_and_choose(const Context& ctx, const Matrix& head, View<const float> hidden, QuantizedRows& quantized,
                     std::span<const SampledPosition> positions, const step::SamplingView& sampling,
                     HeadScratch& scratch, const HeadOutputs& out);

/// Log-probability, rank (1 = most likely, equal logits by id) and best ids of targets[t] (-1: NaN and rank 0) for
/// hidden [T', hidden]; works in tiles of rows and vocabulary; [T, vocab] is never stored.
struct ScoreOutputs {
  View<float> logprobs;      // [T']
  View<int32_t> ranks;       // [T']
  View<int32_t> top_ids;     // [T', k] or empty
  View<float> top_logprobs;  // [T', k] or empty
};
void score(const Context& ctx, const Matrix& head, View<const float> hidden, QuantizedRows& quantized,
           View<const int32_t> targets, HeadScratch& scratch, const ScoreOutputs& out);

}  // namespace lockstep::ops
