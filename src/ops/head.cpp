// SPDX-License-Identifier: Apache-2.0
#include "ops/head.h"

#include <algorithm>

#include "base/check.h"
#include "ops/head_scratch.h"

namespace lockstep::ops {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

int64_t pass_rows(const Matrix& head, const QuantizedRows& quantized, const HeadScratch::Impl& scratch) {
  return kernels::has_rounded_activations(head.format()) ? std::min(scratch.max_rows, quantized.max_rows())
                                                         : scratch.max_rows;
}

void give_slot(HeadPass& pass, int64_t r) {
  pass.scratch.row(r).slot = static_cast<int32_t>(pass.slots);
  pass.scratch.slot_rows.as<int32_t>()[pass.slots++] = static_cast<int32_t>(r);
}

void write_top(const HeadPass& pass, int64_t slot, int32_t k, int32_t* ids, float* logprobs, int64_t columns) {
  const auto known = static_cast<int32_t>(std::min<int64_t>({k, columns, pass.scratch.vocab}));
  if (known > 0) merge_top(pass.scratch, slot, known, ids, logprobs);
  std::fill(ids + std::max(known, 0), ids + columns, -1);
  std::fill(logprobs + std::max(known, 0), logprobs + columns, kNaN);
}

// ---- head_and_choose

/// Plans rows from `first` on until a limit of the pass is reached.
void plan_pass(HeadPass& pass, std::span<const SampledPosition> positions, const step::SamplingView& sampling,
               int64_t limit) {
  const HeadScratch::Impl& scratch = pass.scratch;
  for (; pass.rows < std::min<int64_t>(limit, static_cast<int64_t>(positions.size())); ++pass.rows) {
    RowState& row = scratch.row(pass.rows);
    row = RowState();
    row.sampling_row = positions[static_cast<size_t>(pass.rows)].row;
    row.position = positions[static_cast<size_t>(pass.rows)].position;
    plan_sampling(sampling, scratch.vocab, row);
    if (row.choice == Choice::kLargest && !row.processed && row.logprobs_k < 0) continue;
    if (pass.slots == scratch.max_slots) break;
    give_slot(pass, pass.rows);
  }
}

/// Statistics of raw logits, then mask, bias and penalties in place.
void process_logits(const HeadPass& pass, const step::SamplingView& sampling) {
  const HeadScratch::Impl& scratch = pass.scratch;
  const auto has_work = [](const RowState& row) { return row.finite && (row.processed || row.logprobs_k >= 0); };
  bool any = false;
  for (int64_t slot = 0; slot < pass.slots; ++slot) any = any || has_work(scratch.row_of_slot(slot));
  if (!any) return;
  pass.for_each_piece([&](int64_t slot, int64_t piece, int) {
    const RowState& row = scratch.row_of_slot(slot);
    if (!row.finite) return;
    if (row.logprobs_k >= 0) gather_statistics(pass, slot, piece, row.logprobs_k);
    if (row.processed) process_piece(pass, sampling, slot, piece);
  });
  for (int64_t slot = 0; slot < pass.slots; ++slot) {
    RowState& row = scratch.row_of_slot(slot);
    if (!row.finite || !row.processed) continue;
    kernels::ArgMax best = scratch.result(slot, 0).best;
    for (int64_t piece = 1; piece < scratch.pieces; ++piece) {
      const kernels::ArgMax& other = scratch.result(slot, piece).best;
      if (other.value > best.value) best = other;
    }
    row.max = best.value;
    row.id = best.index;
    if (best.value == kMaskedOut) row.finite = false;  // nothing is allowed
  }
}

void write_slot_row(const HeadPass& pass, int64_t slot, int64_t s, const HeadOutputs& out) {
  const RowState& row = pass.scratch.row_of_slot(slot);
  if (!row.finite || row.logprobs_k < 0) return;
  if (!out.logprobs.empty()) {
    const bool raw_largest = row.choice == Choice::kLargest && !row.processed;
    const float logit =
        raw_largest ? row.raw_max : compute_logit(pass, pass.scratch.slot_rows.as<int32_t>()[slot], row.id);
    out.logprobs(s) = (logit - row.raw_max) - log_sum_exp(pass.scratch, slot);
  }
  if (!out.top_ids.empty()) {
    write_top(pass, slot, row.logprobs_k, out.top_ids.row(s), out.top_logprobs.row(s), out.top_ids.extent(1));
  }
}

void write_outputs(const HeadPass& pass, int64_t first, const HeadOutputs& out) {
  const HeadScratch::Impl& scratch = pass.scratch;
  for (int64_t r = 0; r < pass.rows; ++r) {
    const RowState& row = scratch.row(r);
    const int64_t s = first + r;
    if (!out.ids.empty()) out.ids(s) = row.finite ? row.id : 0;
    if (!out.finite.empty()) out.finite(s) = row.finite ? 1 : 0;
    if (!out.logprobs.empty()) out.logprobs(s) = kNaN;
    if (out.top_ids.empty()) continue;
    std::fill_n(out.top_ids.row(s), out.top_ids.extent(1), -1);
    std::fill_n(out.top_logprobs.row(s), out.top_ids.extent(1), kNaN);
  }
  pass.ctx.pool->parallel_for(pass.slots, [&](int64_t slot, int) {
    write_slot_row(pass, slot, first + scratch.slot_rows.as<int32_t>()[slot], out);
  });
}

// ---- score

void plan_scores(HeadPass& pass, View<const int32_t> targets, int64_t first, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    pass.scratch.row(r) = RowState();
    pass.scratch.row(r).target = targets(first + r);
    if (targets(first + r) >= 0) give_slot(pass, r);
  }
  pass.rows = rows;
}

void write_scores(const HeadPass& pass, int64_t first, const ScoreOutputs& out) {
  const HeadScratch::Impl& scratch = pass.scratch;
  const int64_t k = out.top_ids.empty() ? 0 : out.top_ids.extent(1);
  pass.ctx.pool->parallel_for(pass.rows, [&](int64_t r, int) {
    const RowState& row = scratch.row(r);
    const int64_t t = first + r;
    const bool known = row.target >= 0 && row.finite;
    if (!out.logprobs.empty()) {
      out.logprobs(t) =
          known ? (scratch.logits_row(row.slot)[row.target] - row.raw_max) - log_sum_exp(scratch, row.slot) : kNaN;
    }
    if (!out.ranks.empty()) out.ranks(t) = known ? rank_of_target(scratch, row.slot) : 0;
    if (k > 0)
      write_top(pass, row.slot, known ? static_cast<int32_t>(k) : 0, out.top_ids.row(t), out.top_logprobs.row(t), k);
  });
}

}  // namespace

HeadScratch::HeadScratch() : impl_(std::make_unique<Impl>()) {}
HeadScratch::~HeadScratch() = default;
HeadScratch::HeadScratch(HeadScratch&&) noexcept = default;
HeadScratch& HeadScratch::operator=(HeadScratch&&) noexcept = default;

Expected<HeadScratch> HeadScratch::create(int threads, int64_t max_sampled, int64_t vocab_size, int64_t hidden) {
  constexpr int64_t kKeptBytes = int64_t{128} << 20;
  constexpr int64_t kMinSlots = 32;
  HeadScratch scratch;
  Impl& impl = scratch.impl();
  impl.vocab = vocab_size;
  impl.hidden = hidden;
  impl.threads = threads;
  impl.stride = round_up(vocab_size, kKeptBlock);
  impl.tiles = ceil_div(vocab_size, kTileColumns);
  impl.pieces = ceil_div(vocab_size, kPieceIds);
  constexpr int64_t kBytesPerId = 10;
  impl.max_slots = std::clamp<int64_t>(kKeptBytes / (impl.stride * kBytesPerId), 1, std::max(max_sampled, kMinSlots));
  impl.max_rows = std::max(max_sampled, impl.max_slots);
  const int64_t slot_pieces = impl.max_slots * impl.pieces;
  const struct {
    Buffer& buffer;
    int64_t elements;
    size_t element_bytes;
  } bookings[] = {
      {impl.tile_logits, threads * kTileRows * kTileColumns, sizeof(float)},
      {impl.tile_best, impl.tiles * impl.max_rows, sizeof(kernels::ArgMax)},
      {impl.row_states, impl.max_rows, sizeof(RowState)},
      {impl.slot_rows, impl.max_slots, sizeof(int32_t)},
      {impl.row_ok, impl.max_rows, sizeof(int32_t)},
      {impl.logits, impl.max_slots * impl.stride, sizeof(float)},
      {impl.weights, impl.max_slots * impl.stride, sizeof(float)},
      {impl.candidate_ids, impl.max_slots * impl.stride, sizeof(uint16_t)},
      {impl.results, slot_pieces, sizeof(PieceResult)},
      {impl.tops, slot_pieces * step::kMaxLogprobs, sizeof(TopEntry)},
      {impl.histograms, threads * Impl::kHistogram, sizeof(uint64_t)},
  };
  for (const auto& booking : bookings) {
    LOCKSTEP_ASSIGN_OR_RETURN(
        booking.buffer,
        Buffer::allocate(booking.elements * static_cast<int64_t>(booking.element_bytes), "head scratch"));
  }
  return scratch;
}

int64_t HeadScratch::bytes() const {
  int64_t sum = 0;
  for (const Buffer* buffer : impl_->buffers()) sum += buffer->bytes();
  return sum;
}

void HeadScratch::touch() {
  for (Buffer* buffer : impl_->buffers()) buffer->touch();
}

void head_and_choose(const Context& ctx, const Matrix& head, View<const float> hidden, QuantizedRows& quantized,
                     std::span<const SampledPosition> positions, const step::SamplingView& sampling,
                     HeadScratch& scratch, const HeadOutputs& out) {
  HeadScratch::Impl& impl = scratch.impl();
  LOCKSTEP_CHECK(head.n() == impl.vocab && hidden.extent(1) == head.k());
  LOCKSTEP_CHECK(hidden.extent(0) == static_cast<int64_t>(positions.size()));
  const int64_t limit = pass_rows(head, quantized, impl);
  for (int64_t first = 0; first < hidden.extent(0);) {
    HeadPass pass = {ctx, head, hidden.slice(first, hidden.extent(0) - first), quantized, impl};
    plan_pass(pass, positions.subspan(static_cast<size_t>(first)), sampling, limit);
    pass.hidden = pass.hidden.prefix(pass.rows);
    compute_logits(pass, out.logits.slice(out.logits.empty() ? 0 : first, pass.rows));
    process_logits(pass, sampling);
    draw(pass, sampling);
    write_outputs(pass, first, out);
    first += pass.rows;
  }
}

void score(const Context& ctx, const Matrix& head, View<const float> hidden, QuantizedRows& quantized,
           View<const int32_t> targets, HeadScratch& scratch, const ScoreOutputs& out) {
  HeadScratch::Impl& impl = scratch.impl();
  LOCKSTEP_CHECK(head.n() == impl.vocab && hidden.extent(1) == head.k() && hidden.extent(0) == targets.extent(0));
  const int64_t limit = std::min(pass_rows(head, quantized, impl), impl.max_slots);
  const auto k = static_cast<int32_t>(out.top_ids.empty() ? 0 : out.top_ids.extent(1));
  LOCKSTEP_CHECK(k <= step::kMaxLogprobs);
  for (int64_t first = 0; first < hidden.extent(0); first += limit) {
    const int64_t rows = std::min(limit, hidden.extent(0) - first);
    HeadPass pass = {ctx, head, hidden.slice(first, rows), quantized, impl};
    plan_scores(pass, targets, first, rows);
    if (pass.slots > 0) {
      compute_logits(pass, {});
      pass.for_each_piece([&](int64_t slot, int64_t piece, int) {
        if (impl.row_of_slot(slot).finite) gather_statistics(pass, slot, piece, k);
      });
    }
    write_scores(pass, first, out);
  }
}

}  // namespace lockstep::ops
