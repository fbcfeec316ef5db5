// SPDX-License-Identifier: Apache-2.0
// Booking and staging. Results are read in step_results.cpp.
#include "engine/step_buffers.h"

#include <algorithm>

#include "base/check.h"

namespace lockstep::engine {
namespace {

constexpr int64_t kWidth = step::kTokenWidth;
constexpr int64_t kMaxK = step::kMaxLogprobs;

template <class T>
View<const T> part(const std::vector<T>& values, int64_t first, int64_t count) {
  return count == 0 ? View<const T>() : View<const T>(values.data() + first, {count});
}

View<const int32_t> table(const std::vector<int32_t>& values, int64_t first, int64_t rows, int64_t columns) {
  return rows == 0 ? View<const int32_t>() : View<const int32_t>(values.data() + first * columns, {rows, columns});
}

}  // namespace

Expected<std::unique_ptr<StepBuffers>> StepBuffers::create(backend::Backend& backend, const StepCapacity& capacity,
                                                           std::span<const int32_t> eos_token_ids) {
  std::unique_ptr<StepBuffers> buffers(new StepBuffers(capacity, eos_token_ids));
  LOCKSTEP_RETURN_IF_ERROR(buffers->allocate_outputs(backend));
  return buffers;
}

StepBuffers::StepBuffers(const StepCapacity& capacity, std::span<const int32_t> eos_token_ids)
    : capacity_(capacity), sampling_(capacity.max_num_seqs, capacity.vocab_size, eos_token_ids) {
  const auto rows = static_cast<size_t>(capacity.max_num_seqs);
  const auto tokens = static_cast<size_t>(capacity.max_num_batched_tokens);
  const size_t samples = rows * static_cast<size_t>(capacity.max_step_width);
  calls_.reserve(rows);
  rows_.reserve(rows);
  token_ids_.assign(rows * kWidth, 0);
  for (auto* values : {&token_source_, &query_lens_, &seq_lens_, &sample_counts_}) values->assign(rows, 0);
  block_table_.assign(rows * static_cast<size_t>(capacity.max_blocks_per_seq), -1);
  table_used_.assign(rows, 0);
  for (auto* values : {&input_ids_, &slot_mapping_, &score_targets_}) values->assign(tokens, 0);
  host_sampled_ids_.assign(rows * kWidth, 0);
  host_row_status_.assign(rows, 0);
  host_logprobs_.assign(samples, 0);
  host_top_ids_.assign(samples * kMaxK, 0);
  host_top_logprobs_.assign(samples * kMaxK, 0);
  host_score_logprobs_.assign(tokens, 0);
  host_score_ranks_.assign(tokens, 0);
  host_score_top_ids_.assign(tokens * kMaxK, 0);
  host_score_top_logprobs_.assign(tokens * kMaxK, 0);
}

Status StepBuffers::allocate_outputs(backend::Backend& backend) {
  const int64_t rows = capacity_.max_num_seqs;
  const int64_t tokens = capacity_.max_num_batched_tokens;
  const int64_t samples = rows * capacity_.max_step_width;
  LOCKSTEP_ASSIGN_OR_RETURN(sampled_ids_, backend.allocate(DType::kI32, rows, kWidth, 2));
  LOCKSTEP_ASSIGN_OR_RETURN(row_status_, backend.allocate(DType::kI32, rows, 1, 1));
  LOCKSTEP_ASSIGN_OR_RETURN(logprobs_, backend.allocate(DType::kF32, samples, 1, 1));
  LOCKSTEP_ASSIGN_OR_RETURN(top_ids_, backend.allocate(DType::kI32, samples * kMaxK, 1, 1));
  LOCKSTEP_ASSIGN_OR_RETURN(top_logprobs_, backend.allocate(DType::kF32, samples * kMaxK, 1, 1));
  LOCKSTEP_ASSIGN_OR_RETURN(score_logprobs_, backend.allocate(DType::kF32, tokens, 1, 1));
  LOCKSTEP_ASSIGN_OR_RETURN(score_ranks_, backend.allocate(DType::kI32, tokens, 1, 1));
  LOCKSTEP_ASSIGN_OR_RETURN(score_top_ids_, backend.allocate(DType::kI32, tokens * kMaxK, 1, 1));
  LOCKSTEP_ASSIGN_OR_RETURN(score_top_logprobs_, backend.allocate(DType::kF32, tokens * kMaxK, 1, 1));
  return {};
}

void StepBuffers::stage(const scheduler::StepPlan& plan, std::span<const int64_t> call_rows,
                        sampling::CountsBySlot& counts) {
  step_id_ = plan.step_id;
  calls_.clear();
  rows_.clear();
  sampling_.clear();
  num_inputs_ = num_tokens_ = num_samples_ = 0;
  has_sources_ = false;
  int64_t row = 0;
  for (int64_t size : call_rows) {
    Call& call = calls_.emplace_back();
    call.first_row = row;
    call.rows = size;
    call.decode_rows = std::clamp<int64_t>(plan.num_decode_rows - row, 0, size);
    call.first_token = num_tokens_;
    call.first_input = num_inputs_;
    call.first_sample = num_samples_;
    sampling_.begin_call();
    for (int64_t end = row + size; row < end; ++row) stage_row(plan, row, counts);
    call.tokens = num_tokens_ - call.first_token;
    call.inputs = num_inputs_ - call.first_input;
    call.samples = num_samples_ - call.first_sample;
  }
  LOCKSTEP_CHECK(row == static_cast<int64_t>(plan.rows.size()));
}

void StepBuffers::stage_row(const scheduler::StepPlan& plan, int64_t index, sampling::CountsBySlot& counts) {
  const scheduler::PlanRow& row = plan.rows[static_cast<size_t>(index)];
  const auto i = static_cast<size_t>(index);
  rows_.push_back(
      {.call = num_calls() - 1, .first_token = num_tokens_, .first_sample = num_samples_, .samples = row.num_samples});
  stage_targets(row, calls_.back());
  stage_tokens(row, index, index < plan.num_decode_rows);
  stage_block_table(row, index);
  query_lens_[i] = static_cast<int32_t>(row.num_tokens);
  seq_lens_[i] = static_cast<int32_t>(row.first_position + row.num_tokens);
  sample_counts_[i] = static_cast<int32_t>(row.num_samples);
  num_samples_ += row.num_samples;
  sampling_.add({.request_id = row.request_id,
                 .slot = row.slot,
                 .num_samples = row.num_samples,
                 .seed = row.seed,
                 .params = row.sampling,
                 .tokens = row.tokens,
                 .num_prompt = row.num_prompt_tokens,
                 .num_generated = row.first_position + row.num_tokens - row.num_prompt_tokens},
                counts);
}

void StepBuffers::stage_tokens(const scheduler::PlanRow& row, int64_t index, bool decode) {
  const auto known = static_cast<int64_t>(row.tokens.size());
  for (int64_t j = 0; j < row.num_tokens; ++j) {
    const int64_t position = row.first_position + j;
    const int32_t token = position < known ? row.tokens[static_cast<size_t>(position)] : 0;
    if (decode) {
      token_ids_[static_cast<size_t>(index * kWidth + j)] = token;
    } else {
      input_ids_[static_cast<size_t>(num_inputs_++)] = token;
    }
    const int64_t page = row.blocks[static_cast<size_t>(position / capacity_.block_size)];
    slot_mapping_[static_cast<size_t>(num_tokens_++)] =
        static_cast<int32_t>(page * capacity_.block_size + position % capacity_.block_size);
  }
  if (decode) token_source_[static_cast<size_t>(index)] = row.token_source;
  has_sources_ = has_sources_ || row.token_source >= 0;
}

// Only what changes: entries past the row's pages are -1 already, but for those that the step before had used.
void StepBuffers::stage_block_table(const scheduler::PlanRow& row, int64_t index) {
  const auto used = static_cast<int64_t>(row.blocks.size());
  LOCKSTEP_CHECK(used <= capacity_.max_blocks_per_seq);
  int32_t* entries = block_table_.data() + index * capacity_.max_blocks_per_seq;
  std::copy(row.blocks.begin(), row.blocks.end(), entries);
  int64_t& before = table_used_[static_cast<size_t>(index)];
  if (before > used) std::fill(entries + used, entries + before, -1);
  before = used;
}

void StepBuffers::stage_targets(const scheduler::PlanRow& row, Call& call) {
  int32_t* targets = score_targets_.data() + num_tokens_;
  if (!row.score_prompt) {
    std::fill_n(targets, row.num_tokens, -1);
    return;
  }
  call.scores = true;
  call.score_k = std::max(call.score_k, static_cast<int32_t>(row.sampling->prompt_logprobs.value_or(0)));
  for (int64_t j = 0; j < row.num_tokens; ++j) {
    const int64_t next = row.first_position + j + 1;
    targets[j] = next < row.num_prompt_tokens ? row.tokens[static_cast<size_t>(next)] : -1;
  }
}

step::StepArgs StepBuffers::args(int64_t index) const {
  const Call& call = calls_[static_cast<size_t>(index)];
  step::StepArgs args;
  args.step_id = step_id_;
  args.num_decode_rows = call.decode_rows;
  args.token_ids = table(token_ids_, call.first_row, call.decode_rows, kWidth);
  args.input_ids = part(input_ids_, call.first_input, call.inputs);
  if (has_sources_) args.token_source = part(token_source_, call.first_row, call.decode_rows);
  args.query_lens = part(query_lens_, call.first_row, call.rows);
  args.seq_lens = part(seq_lens_, call.first_row, call.rows);
  args.sample_counts = part(sample_counts_, call.first_row, call.rows);
  args.block_table = table(block_table_, call.first_row, call.rows, capacity_.max_blocks_per_seq);
  args.slot_mapping = part(slot_mapping_, call.first_token, call.tokens);
  args.sampling = sampling_.view(index);
  if (call.scores) args.score_targets = part(score_targets_, call.first_token, call.tokens);
  return args;
}

step::StepOutputs StepBuffers::outputs(int64_t index) const {
  const Call& call = calls_[static_cast<size_t>(index)];
  step::StepOutputs outputs;
  outputs.sampled_ids = sampled_ids_->view().slice(call.first_row, call.rows);
  outputs.row_status = row_status_->view().slice(call.first_row, call.rows);
  const int64_t k = sampling_.logprobs_k(index);
  if (k >= 0) outputs.logprobs = logprobs_->view().slice(call.first_sample, call.samples);
  if (k > 0) {
    const auto best = [&](const DevicePtr& buffer) {
      return buffer->view().slice(call.first_sample * kMaxK, call.samples * k).reshaped(call.samples, k);
    };
    outputs.top_ids = best(top_ids_);
    outputs.top_logprobs = best(top_logprobs_);
  }
  if (call.scores) {
    outputs.score_logprobs = score_logprobs_->view().slice(call.first_token, call.tokens);
    outputs.score_ranks = score_ranks_->view().slice(call.first_token, call.tokens);
  }
  if (call.scores && call.score_k > 0) {
    const auto best = [&](const DevicePtr& buffer) {
      return buffer->view()
          .slice(call.first_token * kMaxK, call.tokens * call.score_k)
          .reshaped(call.tokens, call.score_k);
    };
    outputs.score_top_ids = best(score_top_ids_);
    outputs.score_top_logprobs = best(score_top_logprobs_);
  }
  return outputs;
}

}  // namespace lockstep::engine
