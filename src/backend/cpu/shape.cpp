// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/shape.h"

#include <algorithm>

namespace lockstep::backend::cpu_detail {
namespace {

constexpr int64_t kVocabMultiple = 512;
/// A chunk's tokens in a plain warm-up: reaches all code, takes little time.
constexpr int64_t kWarmUpChunk = 128;
// Bounds on what one process may ask for: keeps products within int64 and slot numbers within int32.
constexpr int64_t kMaxSeqs = 65536;
constexpr int64_t kMaxTokens = int64_t{1} << 24;
constexpr int64_t kMaxSlots = int64_t{1} << 31;

Status check_range(std::string_view name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  return invalid_argument("{} is {}, expected {} to {}", name, value, low, high);
}

bool has_block_size(int64_t size) {
  const std::vector<int64_t> sizes = block_sizes();
  return std::find(sizes.begin(), sizes.end(), size) != sizes.end();
}

bool has_kv_dtype(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF32; }

Status check_block_and_dtype(int64_t block_size, DType dtype) {
  if (!has_block_size(block_size)) {
    return invalid_argument("block_size is {}, expected one of {}", block_size, fmt::join(block_sizes(), ", "));
  }
  if (!has_kv_dtype(dtype)) return invalid_argument("kv dtype is {}, expected bf16 or f32", to_string(dtype));
  return {};
}

}  // namespace

std::vector<int64_t> block_sizes() { return {16, 32, 64, 128, 256}; }

int64_t padded_vocab(int64_t vocab_size) { return (vocab_size + kVocabMultiple - 1) / kVocabMultiple * kVocabMultiple; }

Expected<StepShape> checked_shape(const loader::ModelConfig& config, const StepShape& requested) {
  StepShape shape = requested;
  if (shape.max_model_len == 0) shape.max_model_len = config.max_position;
  LOCKSTEP_RETURN_IF_ERROR(check_range("max_num_seqs", shape.max_num_seqs, 1, kMaxSeqs));
  LOCKSTEP_RETURN_IF_ERROR(
      check_range("max_num_batched_tokens", shape.max_num_batched_tokens, shape.max_num_seqs, kMaxTokens));
  LOCKSTEP_RETURN_IF_ERROR(check_range("max_step_width", shape.max_step_width, 1, step::kTokenWidth));
  LOCKSTEP_RETURN_IF_ERROR(check_range("max_model_len", shape.max_model_len, 1, config.longest_context()));
  LOCKSTEP_RETURN_IF_ERROR(check_block_and_dtype(shape.block_size, shape.kv_dtype));
  return shape;
}

step::StepLimits step_limits(const loader::ModelConfig& config, const StepShape& shape) {
  step::StepLimits out;
  out.max_num_seqs = shape.max_num_seqs;
  out.max_num_batched_tokens = shape.max_num_batched_tokens;
  out.max_sampled = std::min(shape.max_num_seqs * shape.max_step_width, shape.max_num_batched_tokens);
  out.max_model_len = shape.max_model_len;
  out.vocab_size = config.vocab_size;
  out.padded_vocab = padded_vocab(config.vocab_size);
  out.hidden_size = config.hidden_size;
  return out;
}

Status check_geometry(const loader::ModelConfig& config, const step::KvGeometry& geometry) {
  const auto expect = [](std::string_view name, int64_t value, int64_t expected) -> Status {
    if (value == expected) return {};
    return invalid_argument("{} is {}, expected {} (the model)", name, value, expected);
  };
  LOCKSTEP_RETURN_IF_ERROR(expect("num_layers", geometry.num_layers, config.num_layers));
  LOCKSTEP_RETURN_IF_ERROR(expect("num_kv_heads", geometry.num_kv_heads, config.num_kv_heads));
  LOCKSTEP_RETURN_IF_ERROR(expect("head_dim", geometry.head_dim, config.head_dim));
  LOCKSTEP_RETURN_IF_ERROR(check_block_and_dtype(geometry.block_size, geometry.dtype));
  return check_range("num_blocks", geometry.num_blocks, 1, kMaxSlots / geometry.block_size - 1);
}

WarmUpStep::WarmUpStep(const StepShape& shape, const step::StepLimits& limits) : shape_(shape) {
  const int64_t rows = shape.max_num_seqs;
  const int64_t most = std::min(shape.max_num_batched_tokens, rows * shape.max_model_len);
  const int64_t chunk = std::min({kWarmUpChunk, shape.max_model_len, shape.max_num_batched_tokens - (rows - 1)});
  const int64_t longest = shape.full_warm_up ? (most + rows - 1) / rows : chunk;
  max_blocks_ = (longest + shape.block_size - 1) / shape.block_size;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t share = most / rows + (row < most % rows ? 1 : 0);
    add_row(shape.full_warm_up ? share : (row + 1 < rows ? 1 : chunk));
  }
  int64_t sampled = 0;
  for (int32_t& count : sample_counts_) {
    count = sampled < limits.max_sampled ? 1 : 0;
    sampled += count;
  }
  sampled_ids_.resize(static_cast<size_t>(rows * step::kTokenWidth));
  row_status_.resize(static_cast<size_t>(rows));
}

void WarmUpStep::add_row(int64_t tokens) {
  const int64_t pages = (tokens + shape_.block_size - 1) / shape_.block_size;
  for (int64_t i = 0; i < max_blocks_; ++i) table_.push_back(i < pages ? static_cast<int32_t>(num_blocks_ + i) : -1);
  for (int64_t i = 0; i < tokens; ++i) slots_.push_back(static_cast<int32_t>(num_blocks_ * shape_.block_size + i));
  input_ids_.insert(input_ids_.end(), static_cast<size_t>(tokens), 0);
  query_lens_.push_back(static_cast<int32_t>(tokens));
  sample_counts_.push_back(1);
  num_blocks_ += pages;
}

step::KvGeometry WarmUpStep::geometry(const loader::ModelConfig& config) const {
  step::KvGeometry out;
  out.num_layers = config.num_layers;
  out.num_kv_heads = config.num_kv_heads;
  out.head_dim = config.head_dim;
  out.block_size = shape_.block_size;
  out.num_blocks = num_blocks_;
  out.dtype = shape_.kv_dtype;
  return out;
}

step::StepArgs WarmUpStep::args() const {
  const auto rows = static_cast<int64_t>(query_lens_.size());
  const auto tokens = static_cast<int64_t>(slots_.size());
  step::StepArgs out;
  out.input_ids = {input_ids_.data(), {tokens}};
  out.query_lens = {query_lens_.data(), {rows}};
  out.seq_lens = {query_lens_.data(), {rows}};
  out.sample_counts = {sample_counts_.data(), {rows}};
  out.block_table = {table_.data(), {rows, max_blocks_}};
  out.slot_mapping = {slots_.data(), {tokens}};
  return out;
}

step::StepOutputs WarmUpStep::outputs() const {
  const auto rows = static_cast<int64_t>(query_lens_.size());
  step::StepOutputs out;
  out.sampled_ids = {sampled_ids_.data(), DType::kI32, {rows, step::kTokenWidth}};
  out.row_status = {row_status_.data(), DType::kI32, {rows}};
  return out;
}

}  // namespace lockstep::backend::cpu_detail
