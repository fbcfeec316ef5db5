// SPDX-License-Identifier: Apache-2.0
// Contiguous K/V beside the pages, for the baseline attention (CpuBackendOptions::attention): which row of the storage
// belongs to which sequence.
//
// A step's rows carry no name that lasts, but a sequence keeps its pages: a storage row is known by the first and the
// last page that it was filled from and by its number of positions. A row of the step that continues one (context = its
// positions, same pages) gets it. Any other takes the storage row that began with the same page, if there is one (its
// sequence has ended, or starts again), else the least recently used one; a context that such a row brings along (a
// prefix-cache hit, a sequence that paused while its row was taken) is copied from the pages. So it serves any step;
// copies are slow, hence benchmarks turn the prefix cache off.
//
// Without shared pages this can't mistake one sequence for another: the first page belongs to one living sequence, and
// a new one takes the storage row over when it writes that page. With a prefix cache, a sequence that pauses for so
// long that its row is taken, and whose pages another one then repeats exactly, could be mistaken: the engine that uses
// this option must not share pages.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/kv_pool.h"
#include "ops/contiguous_attention.h"
#include "step/step.h"

namespace lockstep::backend::cpu_detail {

class ContiguousStore {
 public:
  /// kResourceExhausted names the buffer.
  static Expected<ContiguousStore> create(const ops::ContiguousShape& shape);

  ops::ContiguousKv& kv() { return kv_; }
  int64_t bytes() const { return kv_.bytes(); }
  /// Before the layers of a step: gives every row that isn't idle a storage row and fills in contexts that it lacks.
  void prepare(const step::StepArgs& args, const KvPool& pool);
  /// [R] of the step that was prepared; -1 for idle rows. The storage is the store's.
  View<const int32_t> rows() const { return {rows_.data(), {num_rows_}}; }
  /// Contexts copied from pages so far. For tests.
  int64_t copies() const { return copies_; }
  /// Steps prepared so far. For tests.
  uint64_t steps() const { return tick_; }

 private:
  struct Entry {
    int32_t first_page = -1;
    int32_t last_page = -1;
    int64_t positions = 0;
    uint64_t used = 0;  ///< the prepare() that used it last
  };
  struct Wanted {
    int32_t first_page, last_page;
    int64_t context;
  };
  static Wanted wanted(const step::StepArgs& args, int64_t row, int64_t block_size);
  int32_t find_continued(const Wanted& want) const;
  int32_t find_replaced(const Wanted& want) const;

  ops::ContiguousKv kv_;
  std::vector<Entry> entries_;
  std::vector<int32_t> rows_;
  int64_t num_rows_ = 0;
  uint64_t tick_ = 0;
  int64_t copies_ = 0;
};

}  // namespace lockstep::backend::cpu_detail
