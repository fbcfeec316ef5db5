// SPDX-License-Identifier: Apache-2.0
// Pages and slots, score targets and pooling.
#include <algorithm>

#include "step/validate_internal.h"

namespace lockstep::step::internal {
namespace {

Status check_table_row(const StepArgs& args, const KvGeometry& kv, int64_t row) {
  const int64_t length = args.seq_lens(row);
  const int64_t needed = (length + kv.block_size - 1) / kv.block_size;
  if (needed > args.block_table.extent(1)) {
    return invalid_argument("block_table: row {} needs {} pages for position {}, the table has {} columns", row, needed,
                            length - 1, args.block_table.extent(1));
  }
  for (int64_t i = 0; i < needed; ++i) {
    const int64_t page = args.block_table(row, i);
    if (page == -1) {
      return invalid_argument("block_table: row {} has {} pages, position {} needs {}", row, i, length - 1, needed);
    }
    if (page < 0 || page >= kv.num_blocks) {
      return invalid_argument("block_table[{}, {}] is page {}, expected 0 to {} (the pool)", row, i, page,
                              kv.num_blocks - 1);
    }
  }
  return {};
}

/// A row with at least one real slot: every token has the slot of its position.
Status check_row_slots(const StepArgs& args, const KvGeometry& kv, int64_t row, int64_t first_token,
                       std::vector<uint64_t>& slots) {
  const int64_t query = args.query_lens(row);
  for (int64_t i = 0; i < query; ++i) {
    const int64_t slot = args.slot_mapping(first_token + i);
    const int64_t position = args.seq_lens(row) - query + i;
    const int64_t page = args.block_table(row, position / kv.block_size);
    const int64_t expected = page * kv.block_size + position % kv.block_size;
    if (slot == -1) {
      return invalid_argument(
          "slot_mapping[{}] is -1 beside real slots in row {}: an idle row has -1 on all its tokens", first_token + i,
          row);
    }
    if (slot != expected) {
      return invalid_argument("slot_mapping[{}] is {}, expected {} for position {} of row {}", first_token + i, slot,
                              expected, position, row);
    }
    slots.push_back(static_cast<uint64_t>(slot));
  }
  return {};
}

Status check_idle_row(const StepArgs& args, int64_t row, int64_t first_token) {
  for (int64_t t = first_token; t < first_token + args.query_lens(row); ++t) {
    if (args.slot_mapping(t) != -1) {
      return invalid_argument("slot_mapping[{}] is {} beside -1 in row {}: an idle row has -1 on all its tokens", t,
                              args.slot_mapping(t), row);
    }
  }
  if (args.sample_counts(row) != 0) {
    return invalid_argument("sample_counts[{}] is {} in an idle row (slots of -1), expected 0", row,
                            args.sample_counts(row));
  }
  return {};
}

Status check_distinct_slots(std::vector<uint64_t>& slots) {
  if (!std::is_sorted(slots.begin(), slots.end())) std::sort(slots.begin(), slots.end());
  const auto twin = std::adjacent_find(slots.begin(), slots.end());
  if (twin != slots.end()) return invalid_argument("slot_mapping: two tokens have slot {}, at most one may", *twin);
  return {};
}

Status check_score_row(const StepArgs& args, const StepLimits& limits, int64_t row, int64_t first_token) {
  const bool idle = is_idle(args, first_token);
  for (int64_t t = first_token; t < first_token + args.query_lens(row); ++t) {
    const int64_t target = args.score_targets(t);
    if (target < -1 || target >= limits.vocab_size) {
      return invalid_argument("score_targets[{}] is {}, expected -1 to {}", t, target, limits.vocab_size - 1);
    }
    if (target != -1 && idle) {
      return invalid_argument("score_targets[{}] is {} in idle row {} (slots of -1), expected -1", t, target, row);
    }
  }
  return {};
}

Status check_pooling_row(const StepArgs& args, const StepLimits& limits, int64_t row, int64_t first_token) {
  const int32_t pooling = args.pooling(row);
  if (pooling < 0 || pooling > static_cast<int32_t>(Pooling::kMean)) {
    return invalid_argument("pooling[{}] is {}, expected 0 to 2", row, pooling);
  }
  if (pooling != 0 && is_idle(args, first_token)) {
    return invalid_argument("pooling[{}] is {} in an idle row (slots of -1), expected 0", row, pooling);
  }
  if (pooling != static_cast<int32_t>(Pooling::kMean)) return {};
  if (args.pooling_slot.empty()) return invalid_argument("pooling_slot is missing, row {} pools the mean", row);
  const int32_t slot = args.pooling_slot(row);
  if (slot < 0 || slot >= limits.max_num_seqs) {
    return invalid_argument("pooling_slot[{}] is {}, expected 0 to {}", row, slot, limits.max_num_seqs - 1);
  }
  return {};
}

/// The mean-pooled rows' accumulators, through the slot scratch.
Status check_distinct_pooling_slots(const StepArgs& args, int64_t rows) {
  for (int64_t row = 1; row < rows; ++row) {
    if (args.pooling(row) != static_cast<int32_t>(Pooling::kMean)) continue;
    for (int64_t other = 0; other < row; ++other) {
      if (args.pooling(other) == static_cast<int32_t>(Pooling::kMean) &&
          args.pooling_slot(other) == args.pooling_slot(row)) {
        return invalid_argument("pooling_slot: rows {} and {} both have slot {}", other, row, args.pooling_slot(row));
      }
    }
  }
  return {};
}

}  // namespace

Status check_pages(const StepArgs& args, const StepLimits& limits, const StepTotals& totals,
                   ValidationScratch& scratch) {
  if (args.block_table.empty()) return invalid_argument("block_table is missing, expected [{}, pages]", totals.rows);
  if (args.block_table.rank() != 2 || args.block_table.extent(0) != totals.rows) {
    return invalid_argument("block_table has rank {} and {} rows, expected [{}, pages]", args.block_table.rank(),
                            args.block_table.extent(0), totals.rows);
  }
  scratch.slots.clear();
  int64_t token = 0;
  for (int64_t row = 0; row < totals.rows; ++row) {
    if (is_idle(args, token)) {
      LOCKSTEP_RETURN_IF_ERROR(check_idle_row(args, row, token));
    } else {
      LOCKSTEP_RETURN_IF_ERROR(check_table_row(args, limits.kv, row));
      LOCKSTEP_RETURN_IF_ERROR(check_row_slots(args, limits.kv, row, token, scratch.slots));
    }
    token += args.query_lens(row);
  }
  return check_distinct_slots(scratch.slots);
}

Status check_score_and_pooling(const StepArgs& args, const StepLimits& limits, const StepTotals& totals) {
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(args.score_targets, "score_targets", totals.tokens, /*optional=*/true));
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(args.pooling, "pooling", totals.rows, /*optional=*/true));
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(args.pooling_slot, "pooling_slot", totals.rows, /*optional=*/true));
  int64_t token = 0;
  for (int64_t row = 0; row < totals.rows; ++row) {
    if (!args.score_targets.empty()) LOCKSTEP_RETURN_IF_ERROR(check_score_row(args, limits, row, token));
    if (!args.pooling.empty()) LOCKSTEP_RETURN_IF_ERROR(check_pooling_row(args, limits, row, token));
    token += args.query_lens(row);
  }
  return args.pooling.empty() ? Status() : check_distinct_pooling_slots(args, totals.rows);
}

}  // namespace lockstep::step::internal
