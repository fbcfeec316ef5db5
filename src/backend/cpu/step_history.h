// SPDX-License-Identifier: Apache-2.0
// The last sampled id of every row of recent steps, from which token_source feeds the next step without a trip through
// the host.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "step/step.h"

namespace lockstep::backend::cpu_detail {

/// Rows are numbered within the buffer that the calls of a (split) step write their sampled_ids to: row 0 is the lowest
/// address among them. plan() and check() run on the submitting thread, record() and resolve() on the executing one;
/// steps are executed in the order of plan(), and a record lives until the fourth step after it, so the two never meet.
class StepHistory {
 public:
  StepHistory() = default;
  explicit StepHistory(int64_t max_rows);

  /// Refuses a token_source whose row has no sampled id in step args.step_id - 1.
  Status check(const step::StepArgs& args) const;
  /// Notes which rows of a call will have an id. Returns the entry of the call's row 0, for record().
  int64_t plan(const step::StepArgs& args, const step::StepOutputs& outputs);
  /// Stores an id: entry = what plan() returned + the row of the call.
  void record(uint64_t step_id, int64_t entry, int32_t id);
  /// The id of row `source` of step `step_id`, which check() has found.
  int32_t resolve(uint64_t step_id, int64_t source) const;

 private:
  struct Call {
    uintptr_t address;  ///< of its sampled_ids
    int64_t first;      ///< its first entry in ids and sampled
    int64_t rows;
  };
  struct Step {
    uint64_t step_id = 0;
    bool used = false;
    int64_t rows = 0;  ///< entries in use
    std::vector<Call> calls;
    std::vector<int32_t> ids;
    std::vector<uint8_t> sampled;
  };
  static constexpr size_t kSteps = 4;  ///< two in flight, the one before them, the one being planned

  const Step* find(uint64_t step_id) const;
  static int64_t entry_of(const Step& step, int64_t source);  ///< -1 if there is no such row

  int64_t max_rows_ = 0;
  std::array<Step, kSteps> steps_;
};

}  // namespace lockstep::backend::cpu_detail
