// SPDX-License-Identifier: Apache-2.0
// The fake backend's "model": deterministic tokens without maths. Every output is a function of the ids from position 0
// on and of the row's own sampling parameters, as the exactness contract demands of a real one.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::backend {

/// Digest of a run of token ids.
inline constexpr uint64_t kFakeSeed = 0x243F6A8885A308D3u;
uint64_t fake_fold(uint64_t digest, int32_t token);
uint64_t fake_digest(std::span<const int32_t> tokens);

/// What decides a row's choice, beside its tokens. Neutral by default (greedy).
struct FakeChoice {
  float temperature = 0.0F;  ///< > 0: seed and choice count
  uint64_t seed = 0;
  int32_t choice = 0;
  uint64_t penalties = 0;             ///< digest of penalties and token counts; 0 = none
  std::span<const int32_t> bias_ids;  ///< the first id with a bias of 90 or more is chosen, if it is allowed
  std::span<const float> bias_values;
  std::span<const uint32_t> mask;  ///< bit set = allowed; empty = all allowed
};

/// Folds one (id, times generated) pair, ascending by id, into FakeChoice::penalties.
uint64_t fake_fold_count(uint64_t digest, int32_t id, int32_t outputs);

/// The id chosen after tokens with this digest. If the mask forbids it: the next allowed one, cyclically.
int32_t fake_next_token(uint64_t digest, const FakeChoice& choice, int64_t vocab_size);
/// ln p of `id` after tokens with this digest, < 0.
float fake_logprob(uint64_t digest, int32_t id);
/// Its rank, 1..vocab_size.
int32_t fake_rank(uint64_t digest, int32_t id, int64_t vocab_size);
/// Entry `index` of the best ids and its logprob, < 0 and descending.
int32_t fake_top_id(uint64_t digest, int64_t index, int64_t vocab_size);
float fake_top_logprob(uint64_t digest, int64_t index);

}  // namespace lockstep::backend
