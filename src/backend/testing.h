// SPDX-License-Identifier: Apache-2.0
// For tests and conformance: drives any backend through the step contract. Output buffers have the capacity; every
// dispatch gets views of exactly the rows in use.
#pragma once

#include <algorithm>
#include <functional>
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

  /// A buffer in whole, and how much of it `views` covers.
  struct BufferUse {
    step::DeviceView whole;
    int64_t used;  ///< elements
  };
  std::vector<BufferUse> uses(const step::StepOutputs& views) const {
    std::vector<BufferUse> out;
    const auto add = [&](const std::unique_ptr<DeviceBuffer>& buffer, const step::DeviceView& view) {
      if (buffer) out.push_back({buffer->view(), view.empty() ? 0 : view.elements()});
    };
    add(ids_, views.sampled_ids);
    add(status_, views.row_status);
    add(logprobs_, views.logprobs);
    add(top_ids_, views.top_ids);
    add(top_logprobs_, views.top_logprobs);
    add(logits_, views.logits);
    add(hidden_, views.next_hidden);
    add(pooled_, views.pooled);
    add(score_logprobs_, views.score_logprobs);
    add(score_ranks_, views.score_ranks);
    add(score_top_ids_, views.score_top_ids);
    add(score_top_logprobs_, views.score_top_logprobs);
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
  /// Called with the pages that are handed out, before the first step.
  std::function<void(const std::vector<int32_t>&)> on_pages;
  /// Called around every step; before may replace the views of the arguments by others of the same contents.
  std::function<void(step::testing::StagedStep&, const step::StepOutputs&)> before_step, after_step;
};

/// Continuous batching without any finesse: every arrived request that has room takes part in every step. Pages are
/// handed out once and not used again.
class Generation {
 public:
  Generation(StepDriver& driver, const std::vector<Request>& requests, const GenerateOptions& options)
      : driver_(driver), requests_(requests), options_(options), live_(requests.size()), streams_(requests.size()) {}

  Expected<std::vector<Stream>> run() {
    LOCKSTEP_RETURN_IF_ERROR(hand_out_pages());
    for (uint64_t number = 0; !done(); ++number) {
      plan(number);
      if (rows_.empty()) continue;
      LOCKSTEP_RETURN_IF_ERROR(step(number + 1));
    }
    return streams_;
  }

 private:
  struct Live {
    std::vector<int32_t> tokens, pages;
    int64_t computed = 0;
    int64_t left() const { return static_cast<int64_t>(tokens.size()) - computed; }
  };

  bool done(size_t i) const { return static_cast<int64_t>(streams_[i].ids.size()) >= requests_[i].max_tokens; }
  bool done() const {
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (!done(i)) return false;
    }
    return true;
  }

  Status hand_out_pages() {
    std::vector<int32_t> pages(static_cast<size_t>(options_.num_blocks)), used;
    std::iota(pages.begin(), pages.end(), 0);
    if (options_.page_seed != 0) {
      std::mt19937 random(options_.page_seed);
      std::shuffle(pages.begin(), pages.end(), random);
    }
    for (size_t i = 0; i < requests_.size(); ++i) {
      live_[i].tokens = requests_[i].prompt;
      // The last token is never fed, so its slot is not needed.
      const int64_t length = static_cast<int64_t>(requests_[i].prompt.size()) + requests_[i].max_tokens - 1;
      const int64_t count = (length + options_.block_size - 1) / options_.block_size;
      max_pages_ = std::max(max_pages_, count);
      if (static_cast<int64_t>(pages.size()) < count) return invalid_argument("the test's pool is too small");
      live_[i].pages.assign(pages.end() - count, pages.end());
      used.insert(used.end(), pages.end() - count, pages.end());
      pages.resize(pages.size() - static_cast<size_t>(count));
    }
    if (options_.on_pages) options_.on_pages(used);
    return {};
  }

  void plan(uint64_t number) {
    rows_.clear();
    owners_.clear();
    budget_ = driver_.shape().max_num_batched_tokens;
    decode_rows_ = 0;
    for (const bool decode : {true, false}) {
      for (size_t n = 0; n < requests_.size(); ++n) {
        const size_t i = options_.reverse ? requests_.size() - 1 - n : n;
        const bool is_decode = live_[i].computed > 0 && live_[i].left() == 1;
        if (done(i) || requests_[i].arrival > static_cast<int64_t>(number) || is_decode != decode) continue;
        if (std::find(owners_.begin(), owners_.end(), i) == owners_.end()) add_row(i, decode);
      }
    }
  }

  void add_row(size_t i, bool decode) {
    Live& one = live_[i];
    const int64_t count = std::min({one.left(), options_.chunk, budget_});
    if (count < 1 || static_cast<int64_t>(rows_.size()) >= driver_.shape().max_num_seqs) return;
    step::testing::RowSpec row;
    row.tokens.assign(one.tokens.begin() + one.computed, one.tokens.begin() + one.computed + count);
    row.start = one.computed;
    row.pages = one.pages;
    row.samples = count == one.left() ? 1 : 0;
    row.logprobs_k = requests_[i].logprobs_k;
    row.temperature = requests_[i].temperature;
    row.seed = requests_[i].seed;
    budget_ -= count;
    one.computed += count;
    decode_rows_ += decode ? 1 : 0;
    rows_.push_back(std::move(row));
    owners_.push_back(i);
  }

  Status step(uint64_t step_id) {
    step::testing::StagedStep staged(step_id, decode_rows_, rows_, options_.block_size, max_pages_);
    const step::StepOutputs views = driver_.outputs(staged);
    if (options_.before_step) options_.before_step(staged, views);
    LOCKSTEP_ASSIGN_OR_RETURN(const StepResult result, driver_.run(staged));
    if (options_.after_step) options_.after_step(staged, views);
    int64_t k = -1;
    for (const auto& row : rows_) k = std::max<int64_t>(k, row.logprobs_k);
    size_t sampled = 0;
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (result.row_status[r] != 0) return error(StatusCode::kInternal, "row {} is non-finite", r);
      if (rows_[r].samples > 0) deliver(r, result, k, sampled++);
    }
    return {};
  }

  void deliver(size_t r, const StepResult& result, int64_t k, size_t sampled) {
    Stream& stream = streams_[owners_[r]];
    const int32_t id = result.sampled_ids[r * step::kTokenWidth];
    live_[owners_[r]].tokens.push_back(id);
    stream.ids.push_back(id);
    if (k >= 0) stream.logprobs.push_back(result.logprobs[sampled]);
    for (int64_t j = 0; j < rows_[r].logprobs_k; ++j) {
      const size_t at = sampled * static_cast<size_t>(k) + static_cast<size_t>(j);
      stream.top_ids.push_back(result.top_ids[at]);
      stream.top_logprobs.push_back(result.top_logprobs[at]);
    }
  }

  StepDriver& driver_;
  const std::vector<Request>& requests_;
  const GenerateOptions& options_;
  std::vector<Live> live_;
  std::vector<Stream> streams_;
  std::vector<step::testing::RowSpec> rows_;  ///< of the step being planned
  std::vector<size_t> owners_;
  int64_t budget_ = 0;
  int64_t decode_rows_ = 0;
  int64_t max_pages_ = 1;
};

inline Expected<std::vector<Stream>> generate(StepDriver& driver, const std::vector<Request>& requests,
                                              const GenerateOptions& options) {
  return Generation(driver, requests, options).run();
}

}  // namespace lockstep::backend::testing
