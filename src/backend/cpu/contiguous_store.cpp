// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/contiguous_store.h"

#include "base/check.h"

namespace lockstep::backend::cpu_detail {

Expected<ContiguousStore> ContiguousStore::create(const ops::ContiguousShape& shape) {
  ContiguousStore out;
  LOCKSTEP_ASSIGN_OR_RETURN(out.kv_, ops::ContiguousKv::create(shape));
  out.entries_.resize(static_cast<size_t>(shape.num_rows));
  out.rows_.resize(static_cast<size_t>(shape.num_rows));
  return out;
}

ContiguousStore::Wanted ContiguousStore::wanted(const step::StepArgs& args, int64_t row, int64_t block_size) {
  const int64_t context = args.seq_lens(row) - args.query_lens(row);
  const int32_t last = context == 0 ? -1 : args.block_table(row, (context - 1) / block_size);
  return {args.block_table(row, 0), last, context};
}

/// The most recently used entry that holds the context; -1 if none does.
int32_t ContiguousStore::find_continued(const Wanted& want) const {
  int32_t found = -1;
  for (size_t i = 0; want.context > 0 && i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    const bool same = entry.first_page == want.first_page && entry.last_page == want.last_page &&
                      entry.positions == want.context && entry.used != tick_;
    if (same && (found < 0 || entry.used > entries_[static_cast<size_t>(found)].used)) found = static_cast<int32_t>(i);
  }
  return found;
}

int32_t ContiguousStore::find_replaced(const Wanted& want) const {
  int32_t oldest = -1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.used == tick_) continue;
    if (entry.first_page == want.first_page) return static_cast<int32_t>(i);
    if (oldest < 0 || entry.used < entries_[static_cast<size_t>(oldest)].used) oldest = static_cast<int32_t>(i);
  }
  LOCKSTEP_CHECK(oldest >= 0);  // a step has no more rows than there are entries
  return oldest;
}

void ContiguousStore::prepare(const step::StepArgs& args, const KvPool& pool) {
  ++tick_;
  num_rows_ = args.query_lens.extent(0);
  const int64_t block_size = pool.geometry().block_size;
  constexpr int32_t kIdle = -1, kNone = -2;
  int64_t token = 0;
  for (int64_t row = 0; row < num_rows_; token += args.query_lens(row), ++row) {
    int32_t& mine = rows_[static_cast<size_t>(row)];
    mine = kIdle;
    if (args.slot_mapping(token) < 0) continue;
    mine = find_continued(wanted(args, row, block_size));
    if (mine < 0) mine = kNone;
    if (mine >= 0) entries_[static_cast<size_t>(mine)].used = tick_;
  }
  for (int64_t row = 0; row < num_rows_; ++row) {
    int32_t& mine = rows_[static_cast<size_t>(row)];
    if (mine == kIdle) continue;
    const Wanted want = wanted(args, row, block_size);
    if (mine == kNone) {
      mine = find_replaced(want);
      if (want.context > 0) ++copies_;
      const View<const int32_t> table(args.block_table.row(row), {args.block_table.extent(1)});
      for (int64_t layer = 0; want.context > 0 && layer < pool.geometry().num_layers; ++layer) {
        ops::copy_from_pages(pool.geometry(), pool.layers()[static_cast<size_t>(layer)], table, want.context, kv_,
                             layer, mine);
      }
    }
    const int64_t length = args.seq_lens(row);
    entries_[static_cast<size_t>(mine)] = {want.first_page, args.block_table(row, (length - 1) / block_size), length,
                                           tick_};
  }
}

}  // namespace lockstep::backend::cpu_detail
