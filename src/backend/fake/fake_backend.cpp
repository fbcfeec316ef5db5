// SPDX-License-Identifier: Apache-2.0
#include "backend/fake/fake_backend.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <optional>
#include <thread>

#include "backend/fake/fake_model.h"
#include "base/check.h"

namespace lockstep::backend {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kHidden = 8;
constexpr size_t kMaxInFlight = 2;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class FakeBuffer final : public DeviceBuffer {
 public:
  FakeBuffer(DType dtype, int64_t rows, int64_t columns, int rank)
      : bytes_(static_cast<size_t>(rows * columns * dtype_info(dtype).block_bytes)) {
    view_ = rank == 1 ? step::DeviceView(bytes_.data(), dtype, {rows})
                      : step::DeviceView(bytes_.data(), dtype, {rows, columns});
  }
  const step::DeviceView& view() const override { return view_; }

 private:
  std::vector<std::byte> bytes_;
  step::DeviceView view_;
};

template <class T>
T* data(const step::DeviceView& view) {
  return static_cast<T*>(view.backend_address());
}

/// Where a step's sampled ids are, for the token_source of the next step. Calls of one step are submitted in row order.
struct SampledIds {
  uint64_t step_id = 0;
  const int32_t* base = nullptr;
  std::vector<int32_t> counts;  // by row
};

struct Submitted {
  uint64_t ticket = 0;
  step::StepArgs args;
  step::StepOutputs outputs;
  Clock::time_point start;
};

class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(FakeOptions options) : options_(std::move(options)) {}

  Capabilities capabilities() const override;
  Status warm_up(const StepShape& shape) override;
  Status allocate_kv(const step::KvGeometry& geometry) override;
  Status validate(const step::StepArgs& args, const step::StepOutputs& outputs) const override;
  Expected<StepTicket> submit(const step::StepArgs& args, const step::StepOutputs& outputs) override;
  Status wait(StepTicket ticket) override;
  Expected<std::unique_ptr<DeviceBuffer>> allocate(DType dtype, int64_t rows, int64_t columns, int rank) override {
    return std::make_unique<FakeBuffer>(dtype, rows, columns, rank);
  }
  Status read(const step::DeviceView& view, void* host, int64_t bytes) const override;
  Status copy_block(int64_t from, int64_t to) override;
  MemoryReport memory() const override {
    return {.weight_bytes = 0, .scratch_bytes = 0, .kv_bytes = limits_.kv.total_bytes()};
  }
  std::string describe() const override { return "fake backend: deterministic tokens, no maths"; }

 private:
  /// A row of the step being run.
  struct Row {
    int64_t index = 0;
    int64_t first_token = 0;   // in slot_mapping
    int64_t first_sample = 0;  // in the [S, ...] outputs
    int64_t query = 0;
    int64_t length = 0;
    int64_t samples = 0;
  };

  Status record_sampled_ids(const step::StepArgs& args, const step::StepOutputs& outputs);
  Status run(const Submitted& step);
  void write_page(const step::StepArgs& args, const Row& row);
  int32_t source_token(const step::StepArgs& args, int64_t row) const;
  void digest_row(const step::StepArgs& args, const Row& row);
  void sample(const step::StepArgs& args, const step::StepOutputs& outputs, const Row& row);
  void write_logprobs(const step::StepArgs& args, const step::StepOutputs& outputs, const Row& row, int64_t sample,
                      int32_t id, uint64_t digest);
  void score(const step::StepArgs& args, const step::StepOutputs& outputs, const Row& row);
  FakeChoice choice_of(const step::SamplingView& view, int64_t row) const;

  FakeOptions options_;
  StepShape shape_;
  step::StepLimits limits_;
  mutable std::optional<step::ValidationScratch> scratch_;
  std::vector<int32_t> pages_;                     // token id by slot
  std::vector<int32_t> context_;                   // of the row being run
  std::vector<uint64_t> digests_;                  // after each token of the row's query
  std::array<SampledIds, 3> sampled_;              // by step_id % 3: two steps in flight and the one before them
  std::array<Submitted, kMaxInFlight> in_flight_;  // oldest first
  size_t num_in_flight_ = 0;
  uint64_t last_ticket_ = 0;
  Clock::time_point device_free_;
};

Capabilities FakeBackend::capabilities() const {
  Capabilities c;
  c.batch_sizes = options_.batch_sizes;
  c.block_sizes = options_.block_sizes;
  c.kv_dtypes = {DType::kBF16, DType::kF32};
  c.max_step_width = step::kTokenWidth;
  c.max_model_len = options_.max_model_len;
  c.vocab_size = options_.vocab_size;
  c.padded_vocab = options_.vocab_size;
  c.hidden_size = kHidden;
  c.num_layers = 1;
  c.num_kv_heads = 1;
  c.head_dim = 16;
  return c;
}

Status FakeBackend::warm_up(const StepShape& shape) {
  LOCKSTEP_RETURN_IF_ERROR(options_.warm_up_result);
  shape_ = shape;
  limits_.max_num_seqs = shape.max_num_seqs;
  limits_.max_num_batched_tokens = shape.max_num_batched_tokens;
  limits_.max_sampled = shape.max_num_seqs * shape.max_step_width;
  limits_.max_model_len = shape.max_model_len;
  limits_.vocab_size = options_.vocab_size;
  limits_.padded_vocab = options_.vocab_size;
  limits_.hidden_size = kHidden;
  limits_.batch_sizes = options_.batch_sizes;
  context_.reserve(static_cast<size_t>(shape.max_model_len));
  digests_.reserve(static_cast<size_t>(shape.max_num_batched_tokens));
  for (SampledIds& ids : sampled_) ids.counts.reserve(static_cast<size_t>(shape.max_num_seqs));
  return {};
}

Status FakeBackend::allocate_kv(const step::KvGeometry& geometry) {
  if (shape_.max_model_len == 0) return error(StatusCode::kFailedPrecondition, "allocate_kv before warm_up");
  if (geometry.total_bytes() > options_.kv_limit_bytes) {
    return error(StatusCode::kResourceExhausted, "KV pool of {} bytes: only {} are there", geometry.total_bytes(),
                 options_.kv_limit_bytes);
  }
  limits_.kv = geometry;
  scratch_.emplace(limits_);
  pages_.assign(static_cast<size_t>(geometry.num_blocks * geometry.block_size), -1);
  return {};
}

Status FakeBackend::validate(const step::StepArgs& args, const step::StepOutputs& outputs) const {
  if (!scratch_) return error(StatusCode::kFailedPrecondition, "a step before allocate_kv");
  LOCKSTEP_RETURN_IF_ERROR(step::validate_step(args, outputs, limits_, *scratch_));
  return options_.refuse ? options_.refuse(args) : Status();
}

Status FakeBackend::record_sampled_ids(const step::StepArgs& args, const step::StepOutputs& outputs) {
  const SampledIds& before = sampled_[(args.step_id + 2) % 3];
  for (int64_t row = 0; !args.token_source.empty() && row < args.num_decode_rows; ++row) {
    const int32_t source = args.token_source(row);
    if (source < 0) continue;
    const bool there = before.step_id + 1 == args.step_id && static_cast<size_t>(source) < before.counts.size() &&
                       before.counts[static_cast<size_t>(source)] > 0;
    if (!there)
      return invalid_argument("token_source[{}] is {}, not a row of step {} that sampled", row, source,
                              args.step_id - 1);
  }
  SampledIds& own = sampled_[args.step_id % 3];
  if (own.step_id != args.step_id) {
    own.step_id = args.step_id;
    own.base = data<int32_t>(outputs.sampled_ids);
    own.counts.clear();
  }
  for (int64_t row = 0; row < args.sample_counts.extent(0); ++row) own.counts.push_back(args.sample_counts(row));
  return {};
}

Expected<StepTicket> FakeBackend::submit(const step::StepArgs& args, const step::StepOutputs& outputs) {
  LOCKSTEP_RETURN_IF_ERROR(validate(args, outputs));
  if (num_in_flight_ >= kMaxInFlight) return error(StatusCode::kFailedPrecondition, "two steps are in flight already");
  LOCKSTEP_RETURN_IF_ERROR(record_sampled_ids(args, outputs));
  in_flight_[num_in_flight_++] = {.ticket = ++last_ticket_, .args = args, .outputs = outputs, .start = Clock::now()};
  return StepTicket{last_ticket_};
}

Status FakeBackend::wait(StepTicket ticket) {
  if (num_in_flight_ == 0 || in_flight_[0].ticket != ticket.id) {
    return error(StatusCode::kFailedPrecondition, "step {} is not the oldest one in flight", ticket.id);
  }
  const Submitted step = in_flight_[0];
  in_flight_[0] = in_flight_[1];
  --num_in_flight_;
  const double delay =
      options_.step_delay_s + options_.token_delay_s * static_cast<double>(step.args.slot_mapping.extent(0));
  if (delay > 0) {
    device_free_ = std::max(device_free_, step.start) +
                   std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(delay));
    std::this_thread::sleep_until(device_free_);
  }
  return run(step);
}

Status FakeBackend::run(const Submitted& step) {
  const step::StepArgs& args = step.args;
  if (options_.fail_step && options_.fail_step(args.step_id)) {
    return error(StatusCode::kInternal, "the fake device failed in step {}", args.step_id);
  }
  Row row;
  for (; row.index < args.query_lens.extent(0); ++row.index) {
    row.query = args.query_lens(row.index);
    row.length = args.seq_lens(row.index);
    row.samples = args.sample_counts(row.index);
    if (args.slot_mapping(row.first_token) != -1) {
      write_page(args, row);
      digest_row(args, row);
      const bool bad = options_.non_finite && options_.non_finite(context_);
      data<int32_t>(step.outputs.row_status)[row.index] =
          static_cast<int32_t>(bad ? step::RowStatus::kNonFinite : step::RowStatus::kOk);
      sample(args, step.outputs, row);
      score(args, step.outputs, row);
      for (int64_t h = 0; !step.outputs.pooled.empty() && h < kHidden; ++h) {
        data<float>(step.outputs.pooled)[row.index * kHidden + h] =
            fake_logprob(digests_.back(), static_cast<int32_t>(h));
      }
    }
    row.first_token += row.query;
    row.first_sample += row.samples;
  }
  return {};
}

int32_t FakeBackend::source_token(const step::StepArgs& args, int64_t row) const {
  const SampledIds& before = sampled_[(args.step_id + 2) % 3];
  const auto source = static_cast<size_t>(args.token_source(row));
  return before.base[source * step::kTokenWidth + static_cast<size_t>(before.counts[source] - 1)];
}

void FakeBackend::write_page(const step::StepArgs& args, const Row& row) {
  int64_t decode_tokens = 0;
  for (int64_t r = 0; r < args.num_decode_rows; ++r) decode_tokens += args.query_lens(r);
  for (int64_t i = 0; i < row.query; ++i) {
    int32_t token = 0;
    if (row.index >= args.num_decode_rows) {
      token = args.input_ids(row.first_token + i - decode_tokens);
    } else if (i == 0 && !args.token_source.empty() && args.token_source(row.index) >= 0) {
      token = source_token(args, row.index);
    } else {
      token = args.token_ids(row.index, i);
    }
    pages_[static_cast<size_t>(args.slot_mapping(row.first_token + i))] = token;
  }
}

void FakeBackend::digest_row(const step::StepArgs& args, const Row& row) {
  context_.clear();
  digests_.clear();
  const int64_t block_size = limits_.kv.block_size;
  uint64_t digest = kFakeSeed;
  for (int64_t position = 0; position < row.length; ++position) {
    const int64_t page = args.block_table(row.index, position / block_size);
    context_.push_back(pages_[static_cast<size_t>(page * block_size + position % block_size)]);
    digest = fake_fold(digest, context_.back());
    if (position >= row.length - row.query) digests_.push_back(digest);
  }
}

FakeChoice FakeBackend::choice_of(const step::SamplingView& view, int64_t row) const {
  FakeChoice choice;
  if (!view.temperature.empty()) choice.temperature = view.temperature(row);
  if (!view.seed.empty()) choice.seed = view.seed(row);
  if (!view.choice.empty()) choice.choice = view.choice(row);
  if (!view.count_offsets.empty()) {
    for (int32_t i = view.count_offsets(row); i < view.count_offsets(row + 1); ++i) {
      choice.penalties = fake_fold_count(choice.penalties, view.count_ids(i), view.count_outputs(i));
    }
  }
  if (!view.bias_offsets.empty()) {
    const auto first = static_cast<size_t>(view.bias_offsets(row));
    const auto count = static_cast<size_t>(view.bias_offsets(row + 1)) - first;
    choice.bias_ids = {view.bias_ids.data() + first, count};
    choice.bias_values = {view.bias_values.data() + first, count};
  }
  if (!view.mask_index.empty() && view.mask_index(row) >= 0) {
    choice.mask = {view.masks.row(view.mask_index(row)), static_cast<size_t>(view.masks.extent(1))};
  }
  return choice;
}

void FakeBackend::sample(const step::StepArgs& args, const step::StepOutputs& outputs, const Row& row) {
  if (row.samples == 0) return;
  const FakeChoice choice = choice_of(args.sampling, row.index);
  for (int64_t j = 0; j < row.samples; ++j) {
    const uint64_t digest = digests_[digests_.size() - static_cast<size_t>(row.samples - j)];
    const int32_t id = fake_next_token(digest, choice, options_.vocab_size);
    data<int32_t>(outputs.sampled_ids)[row.index * step::kTokenWidth + j] = id;
    write_logprobs(args, outputs, row, row.first_sample + j, id, digest);
    for (int64_t h = 0; !outputs.next_hidden.empty() && h < kHidden; ++h) {
      data<float>(outputs.next_hidden)[(row.first_sample + j) * kHidden + h] =
          fake_logprob(digest, static_cast<int32_t>(h));
    }
    for (int64_t v = 0; !outputs.logits.empty() && v < options_.vocab_size; ++v) {
      data<float>(outputs.logits)[(row.first_sample + j) * options_.vocab_size + v] =
          fake_logprob(digest, static_cast<int32_t>(v));
    }
  }
}

void FakeBackend::write_logprobs(const step::StepArgs& args, const step::StepOutputs& outputs, const Row& row,
                                 int64_t sample, int32_t id, uint64_t digest) {
  if (outputs.logprobs.empty()) return;
  const int32_t k = args.sampling.logprobs_k.empty() ? -1 : args.sampling.logprobs_k(row.index);
  data<float>(outputs.logprobs)[sample] = k >= 0 ? fake_logprob(digest, id) : kNaN;
  if (outputs.top_ids.empty()) return;
  const int64_t width = outputs.top_ids.extent(1);
  for (int64_t j = 0; j < width; ++j) {
    data<int32_t>(outputs.top_ids)[sample * width + j] = j < k ? fake_top_id(digest, j, options_.vocab_size) : -1;
    data<float>(outputs.top_logprobs)[sample * width + j] = j < k ? fake_top_logprob(digest, j) : kNaN;
  }
}

void FakeBackend::score(const step::StepArgs& args, const step::StepOutputs& outputs, const Row& row) {
  if (args.score_targets.empty()) return;
  const int64_t width = outputs.score_top_ids.empty() ? 0 : outputs.score_top_ids.extent(1);
  for (int64_t i = 0; i < row.query; ++i) {
    const int64_t t = row.first_token + i;
    const int32_t target = args.score_targets(t);
    const uint64_t digest = digests_[static_cast<size_t>(i)];
    data<float>(outputs.score_logprobs)[t] = target >= 0 ? fake_logprob(digest, target) : kNaN;
    if (!outputs.score_ranks.empty()) {
      data<int32_t>(outputs.score_ranks)[t] = target >= 0 ? fake_rank(digest, target, options_.vocab_size) : 0;
    }
    for (int64_t j = 0; j < width; ++j) {
      data<int32_t>(outputs.score_top_ids)[t * width + j] =
          target >= 0 ? fake_top_id(digest, j, options_.vocab_size) : -1;
      data<float>(outputs.score_top_logprobs)[t * width + j] = target >= 0 ? fake_top_logprob(digest, j) : kNaN;
    }
  }
}

Status FakeBackend::read(const step::DeviceView& view, void* host, int64_t bytes) const {
  const int64_t size = view.elements() * dtype_info(view.dtype()).block_bytes;
  if (bytes != size) return invalid_argument("read of {} bytes from a view of {}", bytes, size);
  if (bytes > 0) std::memcpy(host, view.backend_address(), static_cast<size_t>(bytes));
  return {};
}

Status FakeBackend::copy_block(int64_t from, int64_t to) {
  const int64_t size = limits_.kv.block_size;
  if (std::min(from, to) < 0 || std::max(from, to) >= limits_.kv.num_blocks) {
    return invalid_argument("copy_block from {} to {}, expected 0 to {}", from, to, limits_.kv.num_blocks - 1);
  }
  std::copy_n(pages_.begin() + from * size, size, pages_.begin() + to * size);
  return {};
}

}  // namespace

std::unique_ptr<Backend> make_fake_backend(FakeOptions options) {
  return std::make_unique<FakeBackend>(std::move(options));
}

}  // namespace lockstep::backend
