// SPDX-License-Identifier: Apache-2.0
// Sampling parameters of a step.
#include <cmath>
#include <limits>

#include "step/validate_internal.h"

namespace lockstep::step::internal {
namespace {

constexpr float kMaxFloat = std::numeric_limits<float>::max();

/// Every entry in low..high; NaN is outside every range.
template <class T>
Status check_range(const View<const T>& view, std::string_view name, int64_t rows, T low, T high) {
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(view, name, rows, /*optional=*/true));
  if (view.empty()) return {};
  for (int64_t row = 0; row < rows; ++row) {
    const T value = view(row);
    if (!(value >= low && value <= high)) {
      return invalid_argument("sampling.{}[{}] is {}, expected {} to {}", name, row, value, low, high);
    }
  }
  return {};
}

/// Offsets of R rows that ascend from 0 to nnz.
Status check_offsets(const View<const int32_t>& offsets, std::string_view name, int64_t rows, int64_t nnz) {
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(offsets, name, rows + 1));
  if (offsets(0) != 0) return invalid_argument("sampling.{}[0] is {}, expected 0", name, offsets(0));
  for (int64_t row = 0; row < rows; ++row) {
    if (offsets(row + 1) < offsets(row)) {
      return invalid_argument("sampling.{}[{}] is {}, expected at least {}", name, row + 1, offsets(row + 1),
                              offsets(row));
    }
  }
  if (offsets(rows) != nnz) {
    return invalid_argument("sampling.{}[{}] is {}, expected {} (the entries)", name, rows, offsets(rows), nnz);
  }
  return {};
}

/// Ids of each row within the vocabulary, strictly ascending.
Status check_csr_ids(const View<const int32_t>& offsets, const View<const int32_t>& ids, std::string_view name,
                     int64_t rows, int64_t vocab_size) {
  for (int64_t row = 0; row < rows; ++row) {
    int64_t previous = -1;
    for (int64_t i = offsets(row); i < offsets(row + 1); ++i) {
      const int64_t id = ids(i);
      if (id < 0 || id >= vocab_size) {
        return invalid_argument("sampling.{}[{}] is {}, expected 0 to {} (the vocabulary)", name, i, id,
                                vocab_size - 1);
      }
      if (id <= previous)
        return invalid_argument("sampling.{}[{}] is {}, expected more than {} before it", name, i, id, previous);
      previous = id;
    }
  }
  return {};
}

Status check_counts(const SamplingView& sampling, const StepLimits& limits, int64_t rows) {
  if (sampling.count_offsets.empty()) {
    if (!sampling.count_ids.empty() || !sampling.count_outputs.empty()) {
      return invalid_argument("sampling.count_offsets is missing, expected [{}]", rows + 1);
    }
    return {};
  }
  const int64_t nnz = sampling.count_ids.size();
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(sampling.count_ids, "sampling.count_ids", nnz, nnz == 0));
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(sampling.count_outputs, "sampling.count_outputs", nnz, nnz == 0));
  LOCKSTEP_RETURN_IF_ERROR(check_offsets(sampling.count_offsets, "count_offsets", rows, nnz));
  LOCKSTEP_RETURN_IF_ERROR(
      check_csr_ids(sampling.count_offsets, sampling.count_ids, "count_ids", rows, limits.vocab_size));
  for (int64_t i = 0; i < nnz; ++i) {
    if (sampling.count_outputs(i) < 0) {
      return invalid_argument("sampling.count_outputs[{}] is {}, expected 0 or more", i, sampling.count_outputs(i));
    }
  }
  return {};
}

Status check_bias(const SamplingView& sampling, const StepLimits& limits, int64_t rows) {
  if (sampling.bias_offsets.empty()) {
    if (!sampling.bias_ids.empty() || !sampling.bias_values.empty()) {
      return invalid_argument("sampling.bias_offsets is missing, expected [{}]", rows + 1);
    }
    return {};
  }
  const int64_t nnz = sampling.bias_ids.size();
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(sampling.bias_ids, "sampling.bias_ids", nnz, nnz == 0));
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(sampling.bias_values, "sampling.bias_values", nnz, nnz == 0));
  LOCKSTEP_RETURN_IF_ERROR(check_offsets(sampling.bias_offsets, "bias_offsets", rows, nnz));
  LOCKSTEP_RETURN_IF_ERROR(
      check_csr_ids(sampling.bias_offsets, sampling.bias_ids, "bias_ids", rows, limits.vocab_size));
  for (int64_t i = 0; i < nnz; ++i) {
    if (!std::isfinite(sampling.bias_values(i))) {
      return invalid_argument("sampling.bias_values[{}] is {}, expected a finite number", i, sampling.bias_values(i));
    }
  }
  return {};
}

/// A mask must allow at least one id of the vocabulary.
bool allows_any(const uint32_t* words, int64_t vocab_size) {
  const int64_t whole = vocab_size / 32;
  for (int64_t i = 0; i < whole; ++i) {
    if (words[i] != 0) return true;
  }
  const auto rest = static_cast<uint32_t>(vocab_size % 32);
  return rest != 0 && (words[whole] & ((uint32_t{1} << rest) - 1)) != 0;
}

Status check_masks(const SamplingView& sampling, const StepLimits& limits, int64_t rows) {
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(sampling.mask_index, "sampling.mask_index", rows, /*optional=*/true));
  const int64_t words = (limits.vocab_size + 31) / 32;
  if (!sampling.masks.empty() && (sampling.masks.rank() != 2 || sampling.masks.extent(1) != words)) {
    return invalid_argument("sampling.masks has rank {} and {} columns, expected [masks, {}]", sampling.masks.rank(),
                            sampling.masks.extent(1), words);
  }
  if (sampling.mask_index.empty()) return {};
  const int64_t masks = sampling.masks.empty() ? 0 : sampling.masks.extent(0);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t index = sampling.mask_index(row);
    if (index < -1 || index >= masks) {
      return invalid_argument("sampling.mask_index[{}] is {}, expected -1 to {}", row, index, masks - 1);
    }
    if (index >= 0 && !allows_any(sampling.masks.row(index), limits.vocab_size)) {
      return invalid_argument("sampling.masks[{}] allows no id, expected at least one", index);
    }
  }
  return {};
}

}  // namespace

Status check_sampling(const SamplingView& sampling, const StepLimits& limits, const StepTotals& totals) {
  const int64_t rows = totals.rows;
  constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  LOCKSTEP_RETURN_IF_ERROR(check_range<float>(sampling.temperature, "temperature", rows, 0.0f, kMaxFloat));
  LOCKSTEP_RETURN_IF_ERROR(check_range<int32_t>(sampling.top_k, "top_k", rows, 0, kMaxInt));
  LOCKSTEP_RETURN_IF_ERROR(check_range<float>(sampling.top_p, "top_p", rows, kSmallest, 1.0f));
  LOCKSTEP_RETURN_IF_ERROR(check_range<float>(sampling.min_p, "min_p", rows, 0.0f, 1.0f));
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(sampling.seed, "sampling.seed", rows, /*optional=*/true));
  LOCKSTEP_RETURN_IF_ERROR(check_range<int32_t>(sampling.choice, "choice", rows, 0, kMaxInt));
  LOCKSTEP_RETURN_IF_ERROR(
      check_range<float>(sampling.repetition_penalty, "repetition_penalty", rows, kSmallest, kMaxFloat));
  LOCKSTEP_RETURN_IF_ERROR(
      check_range<float>(sampling.presence_penalty, "presence_penalty", rows, -kMaxFloat, kMaxFloat));
  LOCKSTEP_RETURN_IF_ERROR(
      check_range<float>(sampling.frequency_penalty, "frequency_penalty", rows, -kMaxFloat, kMaxFloat));
  LOCKSTEP_RETURN_IF_ERROR(
      check_range<int32_t>(sampling.logprobs_k, "logprobs_k", rows, -1, static_cast<int32_t>(kMaxLogprobs)));
  LOCKSTEP_RETURN_IF_ERROR(check_counts(sampling, limits, rows));
  LOCKSTEP_RETURN_IF_ERROR(check_bias(sampling, limits, rows));
  return check_masks(sampling, limits, rows);
}

}  // namespace lockstep::step::internal
