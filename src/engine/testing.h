// SPDX-License-Identifier: Apache-2.0
// For tests with the fake backend: what it says to a request that runs alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "backend/fake/fake_model.h"
#include "request/request.h"
#include "sampling/sampling_batch.h"

namespace lockstep::engine {

/// The stream of one request, computed from the model's definition without any of the engine.
inline std::vector<int32_t> solo_stream(const request::Request& request, uint64_t seed, int64_t vocab_size,
                                        std::span<const int32_t> eos_token_ids) {
  request::SamplingParams params = request.sampling;
  sampling::normalise(params);
  std::vector<int32_t> bias_ids;
  std::vector<float> bias_values;
  for (const auto& [id, value] : params.logit_bias) {
    bias_ids.push_back(id);
    bias_values.push_back(value);
  }
  std::map<int32_t, int32_t> counts;
  for (int32_t id : request.prompt_token_ids) counts.emplace(id, 0);

  std::vector<int32_t> stream;
  uint64_t digest = backend::fake_digest(request.prompt_token_ids);
  std::vector<int32_t> end_ids = params.stop_token_ids;
  if (!params.ignore_eos) end_ids.insert(end_ids.end(), eos_token_ids.begin(), eos_token_ids.end());
  std::vector<uint32_t> mask(static_cast<size_t>((vocab_size + 31) / 32), ~0U);
  for (int32_t id : end_ids) mask[static_cast<size_t>(id / 32)] &= ~(1U << (id % 32));

  while (static_cast<int64_t>(stream.size()) < params.max_tokens) {
    backend::FakeChoice choice;
    if (params.temperature >= 1e-5) {
      choice.temperature = static_cast<float>(params.temperature);
      choice.seed = seed;
      choice.choice = params.choice;
    }
    if (sampling::has_penalties(params)) {
      for (const auto& [id, outputs] : counts)
        choice.penalties = backend::fake_fold_count(choice.penalties, id, outputs);
    }
    choice.bias_ids = bias_ids;
    choice.bias_values = bias_values;
    if (static_cast<int64_t>(stream.size()) < params.min_tokens && !end_ids.empty()) choice.mask = mask;
    const int32_t id = backend::fake_next_token(digest, choice, vocab_size);
    stream.push_back(id);
    ++counts[id];
    digest = backend::fake_fold(digest, id);
    if (std::find(end_ids.begin(), end_ids.end(), id) != end_ids.end()) break;
  }
  return stream;
}

}  // namespace lockstep::engine
