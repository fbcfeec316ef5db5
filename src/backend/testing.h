// SPDX-License-Identifier: Apache-2.0
// For tests and conformance: drives any backend through the step contract. Output buffers have the capacity; every
// dispatch gets views of exactly the rows in use.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "step/testing.h"

namespace lockstep::backend::testing {

/// What to ask for beside ids and status.
struct Ask {
  bool logits = false;
  bool next_hidden = false;
  int64_t score_top_k = 0;
};

/// Host copies of a step's outputs; vectors of outputs that were not asked for are empty.
struct StepResult {
  std::vector<int32_t> sampled_ids;  ///< [R, 8]
  std::vector<int32_t> row_status;   ///< [R]
  std::vector<float> logprobs, top_logprobs, logits, next_hidden, pooled, score_logprobs, score_top_logprobs;
  std::vector<int32_t> top_ids, score_ranks, score_top_ids;
};

/// Device buffers of one capacity, and one step at a time over them.
class StepDriver {
 public:
  StepDriver(Backend& backend, const StepShape& shape)
      : backend_(backend), shape_(shape), caps_(backend.capabilities()) {
    const int64_t rows = shape.max_num_seqs;
    const int64_t tokens = shape.max_num_batched_tokens;
    const int64_t sampled = std::min(tokens, rows * shape.max_step_width);
    ids_ = make(DType::kI32, rows * step::kTokenWidth);
    status_ = make(DType::kI32, rows);
    logprobs_ = make(DType::kF32, sampled);
    top_ids_ = make(DType::kI32, sampled * step::kMaxLogprobs);
    top_logprobs_ = make(DType::kF32, sampled * step::kMaxLogprobs);
    hidden_ = make(DType::kF32, sampled * caps_.hidden_size);
    pooled_ = make(DType::kF32, rows * caps_.hidden_size);
    score_logprobs_ = make(DType::kF32, tokens);
    score_ranks_ = make(DType::kI32, tokens);
    score_top_ids_ = make(DType::kI32, tokens * step::kMaxLogprobs);
    score_top_logprobs_ = make(DType::kF32, tokens * step::kMaxLogprobs);
  }

  Backend& backend() { return backend_; }
  const StepShape& shape() const { return shape_; }

  /// Views of the rows that `staged` has.
  step::StepOutputs outputs(const step::testing::StagedStep& staged, const Ask& ask = {}) {
    const int64_t rows = staged.rows(), tokens = staged.tokens(), sampled = staged.sampled();
    int64_t k = -1;
    for (const int32_t one : staged.logprobs_k) k = std::max<int64_t>(k, one);
    step::StepOutputs out;
    out.sampled_ids = view(*ids_, DType::kI32, rows, step::kTokenWidth);
    out.row_status = view(*status_, DType::kI32, rows);
    if (k >= 0) out.logprobs = view(*logprobs_, DType::kF32, sampled);
    if (k > 0) out.top_ids = view(*top_ids_, DType::kI32, sampled, k);
    if (k > 0) out.top_logprobs = view(*top_logprobs_, DType::kF32, sampled, k);
    if (ask.logits && !logits_) {
      logits_ = make(DType::kF32, std::min(shape_.max_num_batched_tokens, shape_.max_num_seqs * shape_.max_step_width) *
                                      caps_.padded_vocab);
    }
    if (ask.logits) out.logits = view(*logits_, DType::kF32, sampled, caps_.padded_vocab);
    if (ask.next_hidden) out.next_hidden = view(*hidden_, DType::kF32, sampled, caps_.hidden_size);
    if (staged.pooled) out.pooled = view(*pooled_, DType::kF32, rows, caps_.hidden_size);
    if (staged.scored) {
      out.score_logprobs = view(*score_logprobs_, DType::kF32, tokens);
      out.score_ranks = view(*score_ranks_, DType::kI32, tokens);
      if (ask.score_top_k > 0) {
        out.score_top_ids = view(*score_top_ids_, DType::kI32, tokens, ask.score_top_k);
        out.score_top_logprobs = view(*score_top_logprobs_, DType::kF32, tokens, ask.score_top_k);
      }
    }
    return out;
  }

  Expected<StepResult> run(const step::testing::StagedStep& staged, const Ask& ask = {}) {
    const step::StepOutputs views = outputs(staged, ask);
    LOCKSTEP_ASSIGN_OR_RETURN(const StepTicket ticket, backend_.submit(staged.args, views));
    LOCKSTEP_RETURN_IF_ERROR(backend_.wait(ticket));
    return collect(views);
  }

  Expected<StepResult> collect(const step::StepOutputs& views) {
    StepResult out;
    LOCKSTEP_RETURN_IF_ERROR(copy(views.sampled_ids, out.sampled_ids));
    LOCKSTEP_RETURN_IF_ERROR(copy(views.row_status, out.row_status));
    LOCKSTEP_RETURN_IF_ERROR(copy(views.logprobs, out.logprobs));
    LOCKSTEP_RETURN_IF_ERROR(copy(views.top_ids, out.top_ids));
    LOCKSTEP_RETURN_IF_ERROR(copy(views.top_logprobs, out.top_logprobs));
    LOCKSTEP_RETURN_IF_ERROR(copy(views.logits, out.logits));
    LOCKSTEP_RETURN_IF_ERROR(copy(views.next_hidden, out.next_hidden));
    LOCKSTEP_RETURN_IF_ERROR(copy(views.pooled, out.pooled));
    LOCKSTEP_RETURN_IF_ERROR(copy(views.score_logprobs, out.score_logprobs));
    LOCKSTEP_RETURN_IF_ERROR(copy(views.score_ranks, out.score_ranks));
    LOCKSTEP_RETURN_IF_ERROR(copy(views.score_top_ids, out.score_top_ids));
    LOCKSTEP_RETURN_IF_ERROR(copy(views.score_top_logprobs, out.score_top_logprobs));
    return out;
  }

 private:
  std::unique_ptr<DeviceBuffer> make(DType dtype, int64_t elements) {
    auto buffer = backend_.allocate(dtype, std::max<int64_t>(elements, 1), 0, 1);
    LOCKSTEP_CHECK(buffer.has_value());
    return std::move(*buffer);
  }
  static step::DeviceView view(const DeviceBuffer& buffer, DType dtype, int64_t rows) {
    return {buffer.view().backend_address(), dtype, {rows}};
  }
  static step::DeviceView view(const DeviceBuffer& buffer, DType dtype, int64_t rows, int64_t columns) {
    return {buffer.view().backend_address(), dtype, {rows, columns}};
  }
  template <class T>
  Status copy(const step::DeviceView& view, std::vector<T>& out) {
    if (view.empty()) return {};
    out.resize(static_cast<size_t>(view.elements()));
    return backend_.read(view, out.data(), static_cast<int64_t>(out.size() * sizeof(T)));
  }

  Backend& backend_;
  StepShape shape_;
  Capabilities caps_;
  std::unique_ptr<DeviceBuffer> ids_, status_, logprobs_, top_ids_, top_logprobs_, logits_, hidden_, pooled_,
      score_logprobs_, score_ranks_, score_top_ids_, score_top_logprobs_;
};

/// A request of generate().
struct Request {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 8;
  int64_t arrival = 0;  ///< step at which it may start
  int32_t logprobs_k = 0;
  float temperature = 0.0f;
  uint64_t seed = 0;
};

/// What it got.
struct Stream {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::vector<int32_t> top_ids;
  std::vector<float> top_logprobs;  ///< logprobs_k a token
};

struct GenerateOptions {
  int64_t chunk = 1 << 20;  ///< largest prefill chunk
  int64_t block_size = 16;
  int64_t num_blocks = 0;  ///< of the pool
  uint32_t page_seed = 0;  ///< 0: pages in order; else shuffled by it
  bool reverse = false;    ///< rows in reverse order of requests
  Ask ask;
};

/// Continuous batching without any finesse: every arrived request that has room takes part in every step. Pages are
/// handed out once and not used again.
inline Expected<std::vector<Stream>> generate(StepDriver& driver, const std::vector<Request>& requests,
                                              const GenerateOptions& options) {
  using step::testing::RowSpec;
  struct Live {
    std::vector<int32_t> tokens, pages;
    int64_t computed = 0;
  };
  std::vector<int32_t> free_pages(static_cast<size_t>(options.num_blocks));
  std::iota(free_pages.begin(), free_pages.end(), 0);
  if (options.page_seed != 0) {
    std::mt19937 random(options.page_seed);
    std::shuffle(free_pages.begin(), free_pages.end(), random);
  }
  std::vector<Live> live(requests.size());
  std::vector<Stream> streams(requests.size());
  int64_t max_pages = 1;
  for (size_t i = 0; i < requests.size(); ++i) {
    live[i].tokens = requests[i].prompt;
    const int64_t length = static_cast<int64_t>(requests[i].prompt.size()) + requests[i].max_tokens;
    const int64_t pages = (length + options.block_size - 1) / options.block_size;
    max_pages = std::max(max_pages, pages);
    if (static_cast<int64_t>(free_pages.size()) < pages) return invalid_argument("the test's pool is too small");
    live[i].pages.assign(free_pages.end() - pages, free_pages.end());
    free_pages.resize(free_pages.size() - static_cast<size_t>(pages));
  }
  for (int64_t step_number = 0;; ++step_number) {
    std::vector<size_t> decode, prefill;
    bool waiting = false;
    for (size_t n = 0; n < requests.size(); ++n) {
      const size_t i = options.reverse ? requests.size() - 1 - n : n;
      if (static_cast<int64_t>(streams[i].ids.size()) >= requests[i].max_tokens) continue;
      waiting = waiting || requests[i].arrival > step_number;
      if (requests[i].arrival > step_number) continue;
      const int64_t left = static_cast<int64_t>(live[i].tokens.size()) - live[i].computed;
      (left == 1 && live[i].computed > 0 ? decode : prefill).push_back(i);
    }
    if (decode.empty() && prefill.empty()) {
      if (waiting) continue;
      return streams;
    }
    int64_t budget = driver.shape().max_num_batched_tokens;
    std::vector<RowSpec> rows;
    std::vector<size_t> owners;
    int64_t decode_rows = 0;
    const auto add = [&](size_t i, bool is_decode) {
      Live& one = live[i];
      const int64_t left = static_cast<int64_t>(one.tokens.size()) - one.computed;
      const int64_t count = std::min({left, options.chunk, budget});
      if (count < 1 || static_cast<int64_t>(rows.size()) >= driver.shape().max_num_seqs) return;
      RowSpec row;
      row.tokens.assign(one.tokens.begin() + one.computed, one.tokens.begin() + one.computed + count);
      row.start = one.computed;
      row.pages = one.pages;
      row.samples = count == left ? 1 : 0;
      row.logprobs_k = requests[i].logprobs_k;
      row.temperature = requests[i].temperature;
      row.seed = requests[i].seed;
      budget -= count;
      one.computed += count;
      decode_rows += is_decode ? 1 : 0;
      rows.push_back(std::move(row));
      owners.push_back(i);
    };
    for (const size_t i : decode) add(i, true);
    for (const size_t i : prefill) add(i, false);
    const step::testing::StagedStep staged(static_cast<uint64_t>(step_number) + 1, decode_rows, rows,
                                           options.block_size, max_pages);
    LOCKSTEP_ASSIGN_OR_RETURN(const StepResult result, driver.run(staged, options.ask));
    int64_t k = -1;
    for (const RowSpec& row : rows) k = std::max<int64_t>(k, row.logprobs_k);
    size_t sampled = 0;
    for (size_t r = 0; r < rows.size(); ++r) {
      const size_t i = owners[r];
      if (result.row_status[r] != 0) return error(StatusCode::kInternal, "row {} is non-finite", r);
      if (rows[r].samples == 0) continue;
      const int32_t id = result.sampled_ids[r * step::kTokenWidth];
      live[i].tokens.push_back(id);
      streams[i].ids.push_back(id);
      if (k >= 0) streams[i].logprobs.push_back(result.logprobs[sampled]);
      for (int64_t j = 0; j < rows[r].logprobs_k; ++j) {
        const size_t at = sampled * static_cast<size_t>(k) + static_cast<size_t>(j);
        streams[i].top_ids.push_back(result.top_ids[at]);
        streams[i].top_logprobs.push_back(result.top_logprobs[at]);
      }
      ++sampled;
    }
  }
}

}  // namespace lockstep::backend::testing
