// SPDX-License-Identifier: Apache-2.0
// Turns the SamplingParams of a step's rows into SamplingViews, in buffers that are booked once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "request/request.h"
#include "sampling/token_counts.h"
#include "step/step.h"

namespace lockstep::sampling {

/// One row of a step, as far as sampling goes.
struct SamplingRow {
  uint64_t request_id = 0;
  int32_t slot = 0;         ///< 0..max_num_seqs-1; the request keeps it while it runs
  int64_t num_samples = 0;  ///< 0: the row gets neutral values
  uint64_t seed = 0;
  const request::SamplingParams* params = nullptr;
  std::span<const int32_t> tokens;  ///< all known tokens
  int64_t num_prompt = 0;
  int64_t num_generated = 0;  ///< tokens generated before this step's, unknown ones included
};

/// logit_bias sorted by id, the last of equal ids kept: the order that SamplingBatch needs.
void normalise(request::SamplingParams& params);

/// True if the row needs its token counts.
bool has_penalties(const request::SamplingParams& params);

/// Token counts of each running request, by slot; shared by the batches of the steps in flight, for only the step that
/// is being staged looks at them.
using CountsBySlot = std::vector<TokenCounts>;

/// The rows of one step, in one or more calls. Not thread-safe. Allocates nothing once the lists (bias, counts) have
/// been as long before.
class SamplingBatch final {
 public:
  /// eos_token_ids are masked together with a request's stop ids while fewer than min_tokens have been generated.
  SamplingBatch(int64_t max_num_seqs, int64_t vocab_size, std::span<const int32_t> eos_token_ids);

  void clear();
  /// The rows added from here on belong to the next call.
  void begin_call();
  /// At most max_num_seqs rows; params normalised.
  void add(const SamplingRow& row, CountsBySlot& counts);

  int64_t num_calls() const { return static_cast<int64_t>(calls_.size()); }
  /// View of one call's rows, valid until clear(). Groups that no row of the call uses are empty.
  step::SamplingView view(int64_t call) const;
  /// The largest logprobs_k of the call; -1 = none asks.
  int32_t logprobs_k(int64_t call) const { return calls_[static_cast<size_t>(call)].logprobs_k; }

 private:
  struct Call {
    int64_t first_row = 0, num_rows = 0;
    int64_t first_count = 0, num_counts = 0;
    int64_t first_bias = 0, num_bias = 0;
    int32_t logprobs_k = -1;
    bool draws = false, penalises = false, biases = false, masks = false;
  };
  void add_neutral(Call& call);
  void add_penalties(Call& call, const SamplingRow& row, CountsBySlot& counts);
  void add_bias(Call& call, const SamplingRow& row);
  void add_mask(Call& call, const SamplingRow& row);

  int64_t vocab_size_;
  int64_t mask_words_;
  std::vector<int32_t> eos_token_ids_;
  std::vector<Call> calls_;
  // One entry a row.
  std::vector<float> temperature_, top_p_, min_p_, repetition_, presence_, frequency_;
  std::vector<int32_t> top_k_, choice_, mask_index_, logprobs_k_;
  std::vector<uint64_t> seed_;
  // CSR; the offsets have one entry a row and one a call, and count from the call's first entry.
  std::vector<int32_t> count_offsets_, count_ids_, count_outputs_;
  std::vector<int32_t> bias_offsets_, bias_ids_;
  std::vector<float> bias_values_;
  std::vector<uint32_t> masks_;  // [num_masks, mask_words]
  int64_t num_masks_ = 0;
};

}  // namespace lockstep::sampling
