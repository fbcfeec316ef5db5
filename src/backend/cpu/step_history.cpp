// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/step_history.h"

#include <algorithm>

namespace lockstep::backend::cpu_detail {
namespace {

constexpr uintptr_t kRowBytes = step::kTokenWidth * sizeof(int32_t);

}  // namespace

StepHistory::StepHistory(int64_t max_rows) : max_rows_(max_rows) {
  for (Step& one : steps_) {
    one.calls.reserve(static_cast<size_t>(max_rows));
    one.ids.resize(static_cast<size_t>(max_rows));
    one.sampled.resize(static_cast<size_t>(max_rows));
  }
}

const StepHistory::Step* StepHistory::find(uint64_t step_id) const {
  const Step& one = steps_[step_id % kSteps];
  return one.used && one.step_id == step_id ? &one : nullptr;
}

int64_t StepHistory::entry_of(const Step& step, int64_t source) {
  if (step.calls.empty()) return -1;
  uintptr_t base = step.calls.front().address;
  for (const Call& call : step.calls) base = std::min(base, call.address);
  const uintptr_t address = base + static_cast<uintptr_t>(source) * kRowBytes;
  for (const Call& call : step.calls) {
    if (address < call.address) continue;
    const auto row = static_cast<int64_t>((address - call.address) / kRowBytes);
    if (row < call.rows) return call.first + row;
  }
  return -1;
}

Status StepHistory::check(const step::StepArgs& args) const {
  if (args.token_source.empty()) return {};
  int64_t token = 0;
  for (int64_t row = 0; row < args.num_decode_rows; token += args.query_lens(row), ++row) {
    const int64_t source = args.token_source(row);
    if (source < 0 || args.slot_mapping(token) == -1) continue;
    const Step* before = find(args.step_id - 1);
    if (before == nullptr) {
      return invalid_argument("token_source[{}] is {}, but step {} - 1 is not the step before", row, source,
                              args.step_id);
    }
    const int64_t entry = entry_of(*before, source);
    if (entry < 0 || before->sampled[static_cast<size_t>(entry)] == 0) {
      return invalid_argument("token_source[{}] is {}, expected a row of step {} that sampled an id", row, source,
                              before->step_id);
    }
  }
  return {};
}

int64_t StepHistory::plan(const step::StepArgs& args, const step::StepOutputs& outputs) {
  Step& one = steps_[args.step_id % kSteps];
  const int64_t rows = args.query_lens.extent(0);
  const auto address = reinterpret_cast<uintptr_t>(outputs.sampled_ids.backend_address());
  // The same id again over the same rows is a new step, not a further part of a split one.
  const bool overlaps = std::any_of(one.calls.begin(), one.calls.end(), [&](const Call& call) {
    return address < call.address + static_cast<uintptr_t>(call.rows) * kRowBytes &&
           call.address < address + static_cast<uintptr_t>(rows) * kRowBytes;
  });
  if (!one.used || one.step_id != args.step_id || overlaps || one.rows + rows > max_rows_) {
    one.used = true;
    one.step_id = args.step_id;
    one.rows = 0;
    one.calls.clear();
  }
  for (int64_t row = 0; row < rows; ++row) {
    one.sampled[static_cast<size_t>(one.rows + row)] = args.sample_counts(row) > 0 ? 1 : 0;
  }
  const int64_t entry = one.rows;
  one.calls.push_back({address, entry, rows});
  one.rows += rows;
  return entry;
}

void StepHistory::record(uint64_t step_id, int64_t entry, int32_t id) {
  steps_[step_id % kSteps].ids[static_cast<size_t>(entry)] = id;
}

int32_t StepHistory::resolve(uint64_t step_id, int64_t source) const {
  const Step& one = steps_[step_id % kSteps];
  return one.ids[static_cast<size_t>(entry_of(one, source))];
}

}  // namespace lockstep::backend::cpu_detail
