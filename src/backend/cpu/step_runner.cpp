// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/step_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "backend/cpu/host_view.h"

namespace lockstep::backend::cpu_detail {
namespace {

/// Rows that are scored or pooled together: enough to read each head panel for many rows, few enough to stay small.
constexpr int64_t kTileRows = 256;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace

Expected<StepRunner> StepRunner::create(const loader::ModelConfig& config, bool int8_activations,
                                        const StepShape& shape, int threads) {
  const int64_t tokens = shape.max_num_batched_tokens;
  const int64_t tile = std::min(kTileRows, tokens);
  const int64_t sampled = std::min(shape.max_num_seqs * shape.max_step_width, tokens);
  LOCKSTEP_ASSIGN_OR_RETURN(ops::HeadScratch head, ops::HeadScratch::create(threads, std::max(sampled, tile),
                                                                            config.vocab_size, config.hidden_size));
  StepRunner out(std::move(head));
  LOCKSTEP_ASSIGN_OR_RETURN(out.workspace_, model::Workspace::create(config, {.max_tokens = tokens,
                                                                              .max_rows = shape.max_num_seqs,
                                                                              .max_model_len = shape.max_model_len,
                                                                              .threads = threads,
                                                                              .int8_activations = int8_activations}));
  const auto hidden_bytes = config.hidden_size * static_cast<int64_t>(sizeof(float));
  const int64_t final_rows = std::max(sampled, tile);
  LOCKSTEP_ASSIGN_OR_RETURN(out.final_storage_, Buffer::allocate(final_rows * hidden_bytes, "final hidden states"));
  LOCKSTEP_ASSIGN_OR_RETURN(out.pooled_storage_,
                            Buffer::allocate(shape.max_num_seqs * hidden_bytes, "pooling accumulators"));
  out.final_ = {out.final_storage_.as<float>(), {final_rows, config.hidden_size}};
  out.accumulated_ = {out.pooled_storage_.as<float>(), {shape.max_num_seqs, config.hidden_size}};
  for (auto* vector : {&out.token_ids_, &out.positions_, &out.token_ok_}) vector->resize(static_cast<size_t>(tokens));
  out.token_offsets_.resize(static_cast<size_t>(shape.max_num_seqs) + 1);
  out.sampled_.reserve(static_cast<size_t>(sampled));
  out.ids_.resize(static_cast<size_t>(sampled));
  out.finite_.resize(static_cast<size_t>(sampled));
  for (auto* vector : {&out.tile_tokens_, &out.tile_targets_, &out.tile_ranks_})
    vector->resize(static_cast<size_t>(tile));
  out.tile_logprobs_.resize(static_cast<size_t>(tile));
  out.tile_top_ids_.resize(static_cast<size_t>(tile * step::kMaxLogprobs));
  out.tile_top_logprobs_.resize(static_cast<size_t>(tile * step::kMaxLogprobs));
  return out;
}

int64_t StepRunner::bytes() const {
  const auto tokens = static_cast<int64_t>(token_ids_.size() + positions_.size() + token_ok_.size());
  return workspace_.bytes() + head_.bytes() + final_storage_.bytes() + pooled_storage_.bytes() +
         tokens * static_cast<int64_t>(sizeof(int32_t));
}

void StepRunner::touch() {
  workspace_.touch();
  head_.touch();
  final_storage_.touch();
  pooled_storage_.touch();
}

void StepRunner::run(const ops::Context& ctx, const model::Model& model, const KvPool& pool,
                     ContiguousStore* contiguous, StepHistory& history, const Job& job) {
  stage(job, history);
  if (contiguous != nullptr) contiguous->prepare(job.args, pool);
  const View<const float> x = model.forward(ctx, batch(job, pool, contiguous), workspace_);
  choose(ctx, model, history, job, x);
  if (!job.args.score_targets.empty()) score(ctx, model, job, x);
  if (!job.args.pooling.empty()) pool_rows(ctx, model, job, x);
  deliver_status(job);
}

void StepRunner::stage(const Job& job, const StepHistory& history) {
  const step::StepArgs& args = job.args;
  const int64_t rows = args.query_lens.extent(0);
  int32_t token = 0;
  int64_t packed = 0;
  for (int64_t row = 0; row < rows; ++row) {
    token_offsets_[static_cast<size_t>(row)] = token;
    const bool decode = row < args.num_decode_rows;
    const bool skip = args.slot_mapping(token) == -1;
    const int32_t query = args.query_lens(row);
    for (int32_t i = 0; i < query; ++i, ++token) {
      const auto at = static_cast<size_t>(token);
      const int32_t given = decode ? args.token_ids(row, i) : args.input_ids(packed++);
      token_ids_[at] = skip ? 0 : given;  // an idle row's ids are not checked
      positions_[at] = args.seq_lens(row) - query + i;
      token_ok_[at] = 1;
    }
    const int32_t source = decode && !args.token_source.empty() && !skip ? args.token_source(row) : -1;
    if (source >= 0) token_ids_[static_cast<size_t>(token - query)] = history.resolve(args.step_id - 1, source);
  }
  token_offsets_[static_cast<size_t>(rows)] = token;
}

model::Batch StepRunner::batch(const Job& job, const KvPool& pool, ContiguousStore* contiguous) const {
  const step::StepArgs& args = job.args;
  const int64_t rows = args.query_lens.extent(0);
  const int64_t tokens = args.slot_mapping.extent(0);
  model::Batch out;
  out.token_ids = {token_ids_.data(), {tokens}};
  out.positions = {positions_.data(), {tokens}};
  out.rows = {.query_lens = args.query_lens,
              .seq_lens = args.seq_lens,
              .token_offsets = {token_offsets_.data(), {rows + 1}},
              .block_table = args.block_table,
              .slot_mapping = args.slot_mapping};
  out.kv = &pool.geometry();
  out.kv_layers = pool.layers();
  if (contiguous != nullptr) {
    out.contiguous = &contiguous->kv();
    out.contiguous_rows = contiguous->rows();
  }
  out.token_ok = {const_cast<int32_t*>(token_ok_.data()), {tokens}};
  return out;
}

int64_t StepRunner::gather_sampled(const Job& job, View<const float> x) {
  const step::StepArgs& args = job.args;
  const auto row_bytes = static_cast<size_t>(x.extent(1)) * sizeof(float);
  sampled_.clear();
  for (int64_t row = 0; row < args.query_lens.extent(0); ++row) {
    const int32_t end = token_offsets_[static_cast<size_t>(row) + 1];
    for (int32_t t = end - args.sample_counts(row); t < end; ++t) {
      std::memcpy(final_.row(static_cast<int64_t>(sampled_.size())), x.row(t), row_bytes);
      sampled_.push_back({static_cast<int32_t>(row), positions_[static_cast<size_t>(t)] + 1});
    }
  }
  return static_cast<int64_t>(sampled_.size());
}

void StepRunner::choose(const ops::Context& ctx, const model::Model& model, StepHistory& history, const Job& job,
                        View<const float> x) {
  const int64_t count = gather_sampled(job, x);
  if (count == 0) return;
  const step::StepOutputs& outputs = job.outputs;
  const View<float> hidden = final_.prefix(count);
  model.final_norm(ctx, hidden, hidden);
  if (!outputs.next_hidden.empty()) {
    std::memcpy(outputs.next_hidden.backend_address(), hidden.data(),
                static_cast<size_t>(hidden.size()) * sizeof(float));
  }
  ops::HeadOutputs out;
  out.ids = {ids_.data(), {count}};
  out.finite = {finite_.data(), {count}};
  out.logprobs = host_view<float>(outputs.logprobs);
  out.top_ids = host_view<int32_t>(outputs.top_ids);
  out.top_logprobs = host_view<float>(outputs.top_logprobs);
  out.logits = host_view<float>(outputs.logits);
  ops::head_and_choose(ctx, model.weights().head(), hidden, workspace_.quantized, sampled_, job.args.sampling, head_,
                       out);
  deliver_ids(history, job);
}

void StepRunner::deliver_ids(StepHistory& history, const Job& job) {
  const View<int32_t> out = host_view<int32_t>(job.outputs.sampled_ids);
  int64_t column = 0;
  for (size_t s = 0; s < sampled_.size(); ++s) {
    const int32_t row = sampled_[s].row;
    column = s > 0 && sampled_[s - 1].row == row ? column + 1 : 0;
    if (finite_[s] == 0) token_ok_[static_cast<size_t>(token_offsets_[static_cast<size_t>(row)])] = 0;
    out(row, column) = finite_[s] != 0 ? ids_[s] : -1;
    history.record(job.args.step_id, job.history_entry + row, finite_[s] != 0 ? ids_[s] : 0);
  }
}

void StepRunner::score(const ops::Context& ctx, const model::Model& model, const Job& job, View<const float> x) {
  const View<float> logprobs = host_view<float>(job.outputs.score_logprobs);
  const View<int32_t> ranks = host_view<int32_t>(job.outputs.score_ranks);
  const View<int32_t> top_ids = host_view<int32_t>(job.outputs.score_top_ids);
  const View<float> top_logprobs = host_view<float>(job.outputs.score_top_logprobs);
  int64_t count = 0;
  for (int64_t row = 0; row < job.args.query_lens.extent(0); ++row) {
    if (idle(job, row)) continue;
    for (int64_t t = token_offsets_[static_cast<size_t>(row)]; t < token_offsets_[static_cast<size_t>(row) + 1]; ++t) {
      if (job.args.score_targets(t) == -1) {
        logprobs(t) = kNaN;
        if (!ranks.empty()) ranks(t) = 0;
        if (!top_ids.empty()) std::fill_n(top_ids.row(t), top_ids.extent(1), -1);
        if (!top_logprobs.empty()) std::fill_n(top_logprobs.row(t), top_logprobs.extent(1), kNaN);
        continue;
      }
      tile_tokens_[static_cast<size_t>(count++)] = static_cast<int32_t>(t);
      if (count < static_cast<int64_t>(tile_tokens_.size())) continue;
      score_tile(ctx, model, job, x, count);
      count = 0;
    }
  }
  if (count > 0) score_tile(ctx, model, job, x, count);
}

void StepRunner::score_tile(const ops::Context& ctx, const model::Model& model, const Job& job, View<const float> x,
                            int64_t count) {
  const View<float> hidden = final_.prefix(count);
  const DeviceTopK top = {job.outputs.score_top_ids, job.outputs.score_top_logprobs};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t t = tile_tokens_[static_cast<size_t>(i)];
    std::memcpy(hidden.row(i), x.row(t), static_cast<size_t>(x.extent(1)) * sizeof(float));
    tile_targets_[static_cast<size_t>(i)] = job.args.score_targets(t);
  }
  model.final_norm(ctx, hidden, hidden);
  ops::ScoreOutputs out;
  out.logprobs = {tile_logprobs_.data(), {count}};
  out.ranks = {tile_ranks_.data(), {count}};
  if (top.k() > 0) out.top_ids = {tile_top_ids_.data(), {count, top.k()}};
  if (top.k() > 0) out.top_logprobs = {tile_top_logprobs_.data(), {count, top.k()}};
  ops::score(ctx, model.weights().head(), hidden, workspace_.quantized, {tile_targets_.data(), {count}}, head_, out);
  const View<float> logprobs = host_view<float>(job.outputs.score_logprobs);
  const View<int32_t> ranks = host_view<int32_t>(job.outputs.score_ranks);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t t = tile_tokens_[static_cast<size_t>(i)];
    logprobs(t) = out.logprobs(i);
    if (std::isnan(out.logprobs(i))) token_ok_[static_cast<size_t>(t)] = 0;  // the logits overflowed
    if (!ranks.empty()) ranks(t) = out.ranks(i);
    if (top.k() > 0) top.store(t, out.top_ids.row(i), out.top_logprobs.row(i));
  }
}

void StepRunner::pool_rows(const ops::Context& ctx, const model::Model& model, const Job& job, View<const float> x) {
  const View<float> pooled = host_view<float>(job.outputs.pooled);
  for (int64_t row = 0; row < job.args.query_lens.extent(0); ++row) {
    const auto pooling = static_cast<step::Pooling>(job.args.pooling(row));
    if (pooling == step::Pooling::kLast) {
      const int64_t last = token_offsets_[static_cast<size_t>(row) + 1] - 1;
      model.final_norm(ctx, x.slice(last, 1), pooled.slice(row, 1));
    }
    if (pooling == step::Pooling::kMean) pool_mean(ctx, model, job, row, x);
  }
}

void StepRunner::pool_mean(const ops::Context& ctx, const model::Model& model, const Job& job, int64_t row,
                           View<const float> x) {
  float* sum = accumulated_.row(job.args.pooling_slot(row));
  const int64_t hidden = x.extent(1);
  const int64_t end = token_offsets_[static_cast<size_t>(row) + 1];
  if (job.args.seq_lens(row) == job.args.query_lens(row)) std::fill_n(sum, hidden, 0.0f);
  // One chain a column over the prompt's tokens in order, however they were cut into chunks.
  for (int64_t first = token_offsets_[static_cast<size_t>(row)]; first < end;) {
    const int64_t count = std::min<int64_t>(end - first, final_.extent(0));
    const View<float> normed = final_.prefix(count);
    model.final_norm(ctx, x.slice(first, count), normed);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t column = 0; column < hidden; ++column) sum[column] += normed(i, column);
    }
    first += count;
  }
  float* mean = host_view<float>(job.outputs.pooled).row(row);
  const auto length = static_cast<float>(job.args.seq_lens(row));
  for (int64_t column = 0; column < hidden; ++column) mean[column] = sum[column] / length;
}

void StepRunner::deliver_status(const Job& job) const {
  const View<int32_t> out = host_view<int32_t>(job.outputs.row_status);
  for (int64_t row = 0; row < job.args.query_lens.extent(0); ++row) {
    if (idle(job, row)) continue;
    const auto begin = token_ok_.begin() + token_offsets_[static_cast<size_t>(row)];
    const auto end = token_ok_.begin() + token_offsets_[static_cast<size_t>(row) + 1];
    const bool ok = std::find(begin, end, 0) == end;
    out(row) = static_cast<int32_t>(ok ? step::RowStatus::kOk : step::RowStatus::kNonFinite);
  }
}

}  // namespace lockstep::backend::cpu_detail
