// SPDX-License-Identifier: Apache-2.0
#include "engine/options.h"

#include <algorithm>

#include "base/log.h"

namespace lockstep::engine {
namespace {

constexpr int64_t kMaxSeqs = 4096;
constexpr int64_t kMaxBatchedTokens = int64_t{1} << 20;

Status check_range(std::string_view flag, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high) return invalid_argument("{} is {}, must be in [{}, {}]", flag, value, low, high);
  return {};
}

Status check_sizes(const EngineOptions& options, const backend::Capabilities& capabilities) {
  LOCKSTEP_RETURN_IF_ERROR(check_range("--max-num-seqs", options.max_num_seqs, 1, kMaxSeqs));
  LOCKSTEP_RETURN_IF_ERROR(check_range("--max-step-width", options.max_step_width, 1, capabilities.max_step_width));
  LOCKSTEP_RETURN_IF_ERROR(check_range("--max-num-batched-tokens", options.max_num_batched_tokens,
                                       options.max_num_seqs * options.max_step_width, kMaxBatchedTokens));
  LOCKSTEP_RETURN_IF_ERROR(
      check_range("--long-prefill-token-threshold", options.long_prefill_token_threshold, 1, kMaxBatchedTokens));
  LOCKSTEP_RETURN_IF_ERROR(check_range("--max-model-len", options.max_model_len, 0, capabilities.max_model_len));
  LOCKSTEP_RETURN_IF_ERROR(check_range("--max-queued-requests", options.max_queued_requests, 0, INT64_MAX / 2));
  return check_range("--max-queued-tokens", options.max_queued_tokens, 0, INT64_MAX / 2);
}

Status check_kv(const EngineOptions& options, const backend::Capabilities& capabilities) {
  const auto& sizes = capabilities.block_sizes;
  if (std::find(sizes.begin(), sizes.end(), options.block_size) == sizes.end()) {
    return invalid_argument("--block-size is {}, the backend has {}", options.block_size, fmt::join(sizes, ", "));
  }
  const auto& dtypes = capabilities.kv_dtypes;
  if (std::find(dtypes.begin(), dtypes.end(), options.kv_dtype) == dtypes.end()) {
    return invalid_argument("--kv-cache-dtype is {}, which the backend does not have", to_string(options.kv_dtype));
  }
  // Slots are 32-bit.
  LOCKSTEP_RETURN_IF_ERROR(check_range("--num-kv-blocks", options.num_kv_blocks, 0, INT32_MAX / options.block_size));
  LOCKSTEP_RETURN_IF_ERROR(check_range("--kv-cache-memory", options.kv_cache_memory, 0, INT64_MAX));
  if (!(options.memory_utilization > 0.0 && options.memory_utilization <= 1.0)) {
    return invalid_argument("--memory-utilization is {}, must be in (0, 1]", options.memory_utilization);
  }
  return {};
}

}  // namespace

Expected<EngineOptions> resolve(EngineOptions options, const backend::Capabilities& capabilities) {
  LOCKSTEP_RETURN_IF_ERROR(check_sizes(options, capabilities));
  LOCKSTEP_RETURN_IF_ERROR(check_kv(options, capabilities));
  std::erase_if(options.eos_token_ids, [&](int32_t id) {  // some checkpoints name ids that the model can't produce
    const bool unknown = id < 0 || id >= capabilities.vocab_size;
    if (unknown) log_warning("end token {} is not in the vocabulary of {}: ignored", id, capabilities.vocab_size);
    return unknown;
  });
  if (options.max_model_len == 0) {
    options.max_model_len =
        capabilities.default_model_len > 0 ? capabilities.default_model_len : capabilities.max_model_len;
  }
  if (!options.enable_chunked_prefill) {
    options.max_num_batched_tokens =
        std::max(options.max_num_batched_tokens, options.max_model_len + options.max_num_seqs);
    options.long_prefill_token_threshold = options.max_num_batched_tokens;
    LOCKSTEP_RETURN_IF_ERROR(check_range("--max-model-len (without chunked prefill)", options.max_model_len, 1,
                                         kMaxBatchedTokens - options.max_num_seqs));
  }
  return options;
}

std::string to_string(const EngineOptions& options) {
  return fmt::format(
      "max-num-seqs {} max-num-batched-tokens {} long-prefill-token-threshold {} max-model-len {} block-size {} "
      "kv-cache-dtype {} num-kv-blocks {} kv-cache-memory {} memory-utilization {} max-step-width {} chunked-prefill "
      "{} "
      "prefix-caching {} adaptive-budget {} async-scheduling {} scheduling-policy {} max-queued-requests {} "
      "max-queued-tokens {} warmup {} "
      "end tokens [{}]",
      options.max_num_seqs, options.max_num_batched_tokens, options.long_prefill_token_threshold, options.max_model_len,
      options.block_size, to_string(options.kv_dtype), options.num_kv_blocks, options.kv_cache_memory,
      options.memory_utilization, options.max_step_width, options.enable_chunked_prefill, options.enable_prefix_caching,
      options.adaptive_budget, options.async_scheduling,
      options.policy == SchedulingPolicy::kFcfs ? "fcfs" : "priority", options.max_queued_requests,
      options.max_queued_tokens, options.warmup_full ? "full" : "rows", fmt::join(options.eos_token_ids, ", "));
}

}  // namespace lockstep::engine
