// SPDX-License-Identifier: Apache-2.0
// Results of a step: from device buffers to the host, and row by row from there.
#include "base/check.h"
#include "engine/step_buffers.h"
#include "sampling/logprobs.h"

namespace lockstep::engine {
namespace {

constexpr int64_t kWidth = step::kTokenWidth;
constexpr int64_t kMaxK = step::kMaxLogprobs;

template <class T>
Status copy(const backend::Backend& backend, const step::DeviceView& view, std::vector<T>& host, int64_t first) {
  if (view.elements() == 0) return {};
  return backend.read(view, host.data() + first, view.elements() * static_cast<int64_t>(sizeof(T)));
}

}  // namespace

Status StepBuffers::read(const backend::Backend& backend) {
  for (int64_t i = 0; i < num_calls(); ++i) {
    const Call& call = calls_[static_cast<size_t>(i)];
    const step::StepOutputs out = outputs(i);
    LOCKSTEP_RETURN_IF_ERROR(copy(backend, out.sampled_ids, host_sampled_ids_, call.first_row * kWidth));
    LOCKSTEP_RETURN_IF_ERROR(copy(backend, out.row_status, host_row_status_, call.first_row));
    LOCKSTEP_RETURN_IF_ERROR(copy(backend, out.logprobs, host_logprobs_, call.first_sample));
    LOCKSTEP_RETURN_IF_ERROR(copy(backend, out.top_ids, host_top_ids_, call.first_sample * kMaxK));
    LOCKSTEP_RETURN_IF_ERROR(copy(backend, out.top_logprobs, host_top_logprobs_, call.first_sample * kMaxK));
    LOCKSTEP_RETURN_IF_ERROR(copy(backend, out.score_logprobs, host_score_logprobs_, call.first_token));
    LOCKSTEP_RETURN_IF_ERROR(copy(backend, out.score_ranks, host_score_ranks_, call.first_token));
    LOCKSTEP_RETURN_IF_ERROR(copy(backend, out.score_top_ids, host_score_top_ids_, call.first_token * kMaxK));
    LOCKSTEP_RETURN_IF_ERROR(copy(backend, out.score_top_logprobs, host_score_top_logprobs_, call.first_token * kMaxK));
  }
  return {};
}

std::span<const int32_t> StepBuffers::sampled_ids(int64_t row) const {
  return {host_sampled_ids_.data() + row * kWidth, static_cast<size_t>(rows_[static_cast<size_t>(row)].samples)};
}

bool StepBuffers::finite(int64_t row) const {
  return host_row_status_[static_cast<size_t>(row)] == static_cast<int32_t>(step::RowStatus::kOk);
}

request::TokenLogprobs StepBuffers::sample_logprobs(int64_t row, int64_t sample, int k) const {
  const Row& at = rows_[static_cast<size_t>(row)];
  const Call& call = calls_[static_cast<size_t>(at.call)];
  LOCKSTEP_CHECK(sample < at.samples && sampling_.logprobs_k(at.call) >= 0);
  const auto width = static_cast<size_t>(sampling_.logprobs_k(at.call));
  const auto index = static_cast<size_t>(at.first_sample + sample);
  const size_t first =
      static_cast<size_t>(call.first_sample * kMaxK) + (index - static_cast<size_t>(call.first_sample)) * width;
  return sampling::make_logprobs(host_logprobs_[index], /*rank=*/0, std::span(host_top_ids_).subspan(first, width),
                                 std::span(host_top_logprobs_).subspan(first, width), k);
}

request::TokenLogprobs StepBuffers::score_logprobs(int64_t row, int64_t token, int k) const {
  const Row& at = rows_[static_cast<size_t>(row)];
  const Call& call = calls_[static_cast<size_t>(at.call)];
  LOCKSTEP_CHECK(call.scores);
  const auto width = static_cast<size_t>(call.score_k);
  const auto index = static_cast<size_t>(at.first_token + token);
  const size_t first =
      static_cast<size_t>(call.first_token * kMaxK) + (index - static_cast<size_t>(call.first_token)) * width;
  return sampling::make_logprobs(host_score_logprobs_[index], host_score_ranks_[index],
                                 std::span(host_score_top_ids_).subspan(first, width),
                                 std::span(host_score_top_logprobs_).subspan(first, width), k);
}

}  // namespace lockstep::engine
