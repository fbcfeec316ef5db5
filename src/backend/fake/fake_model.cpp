// SPDX-License-Identifier: Apache-2.0
#include "backend/fake/fake_model.h"

namespace lockstep::backend {
namespace {

// The finaliser of splitmix64 (Steele, Lea, Flood, 2014).
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

constexpr float kForcingBias = 90.0F;

bool allowed(const FakeChoice& choice, int64_t id) {
  if (choice.mask.empty()) return true;
  return (choice.mask[static_cast<size_t>(id / 32)] >> (id % 32) & 1U) != 0;
}

}  // namespace

uint64_t fake_fold(uint64_t digest, int32_t token) {
  // One multiplication: 3000-token contexts are digested for every sample.
  const uint64_t x = (digest ^ static_cast<uint32_t>(token)) * 0x9FB21C651E98DF25u;
  return x ^ (x >> 28);
}

uint64_t fake_digest(std::span<const int32_t> tokens) {
  uint64_t digest = kFakeSeed;
  for (int32_t token : tokens) digest = fake_fold(digest, token);
  return digest;
}

uint64_t fake_fold_count(uint64_t digest, int32_t id, int32_t outputs) {
  return mix(mix(digest + static_cast<uint32_t>(id)) + static_cast<uint32_t>(outputs));
}

int32_t fake_next_token(uint64_t digest, const FakeChoice& choice, int64_t vocab_size) {
  for (size_t i = 0; i < choice.bias_ids.size(); ++i) {
    if (choice.bias_values[i] >= kForcingBias && allowed(choice, choice.bias_ids[i])) return choice.bias_ids[i];
  }
  uint64_t key = mix(digest) ^ choice.penalties;
  if (choice.temperature > 0.0F) key = mix(mix(key + choice.seed) + static_cast<uint32_t>(choice.choice));
  const auto vocab = static_cast<uint64_t>(vocab_size);
  auto id = static_cast<int64_t>(key % vocab);
  for (int64_t tries = 0; tries < vocab_size && !allowed(choice, id); ++tries) id = (id + 1) % vocab_size;
  return static_cast<int32_t>(id);
}

float fake_logprob(uint64_t digest, int32_t id) {
  return -0.125F - static_cast<float>(mix(digest + static_cast<uint32_t>(id)) % 4096) / 512.0F;
}

int32_t fake_rank(uint64_t digest, int32_t id, int64_t vocab_size) {
  return 1 + static_cast<int32_t>(mix(digest ^ static_cast<uint32_t>(id)) % static_cast<uint64_t>(vocab_size));
}

int32_t fake_top_id(uint64_t digest, int64_t index, int64_t vocab_size) {
  const auto vocab = static_cast<uint64_t>(vocab_size);
  return static_cast<int32_t>((mix(digest) % vocab + static_cast<uint64_t>(index)) % vocab);
}

float fake_top_logprob(uint64_t digest, int64_t index) {
  return -static_cast<float>(index + 1) * 0.5F - static_cast<float>(mix(digest) % 64) / 256.0F;
}

}  // namespace lockstep::backend
