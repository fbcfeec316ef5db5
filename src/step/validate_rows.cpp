// SPDX-License-Identifier: Apache-2.0
// The rows of a step: counts, lengths, token ids.
#include <algorithm>

#include "step/validate_internal.h"

namespace lockstep::step::internal {
namespace {

Status check_row_count(const StepArgs& args, const StepLimits& limits, StepTotals& totals) {
  if (args.query_lens.empty())
    return invalid_argument("query_lens is missing: a step has 1 to {} rows", limits.max_num_seqs);
  if (args.query_lens.rank() != 1)
    return invalid_argument("query_lens has rank {}, expected 1", args.query_lens.rank());
  const int64_t rows = args.query_lens.extent(0);
  if (rows < 1 || rows > limits.max_num_seqs) {
    return invalid_argument("query_lens has {} rows, a step has 1 to {}", rows, limits.max_num_seqs);
  }
  if (!limits.batch_sizes.empty() &&
      std::find(limits.batch_sizes.begin(), limits.batch_sizes.end(), rows) == limits.batch_sizes.end()) {
    return invalid_argument("query_lens has {} rows, this backend serves only {} rows", rows,
                            fmt::join(limits.batch_sizes, ", "));
  }
  if (args.num_decode_rows < 0 || args.num_decode_rows > rows) {
    return invalid_argument("num_decode_rows is {}, expected 0 to {} (the rows)", args.num_decode_rows, rows);
  }
  totals.rows = rows;
  return {};
}

Status check_row(const StepArgs& args, const StepLimits& limits, int64_t row) {
  const int64_t query = args.query_lens(row);
  const int64_t length = args.seq_lens(row);
  const int64_t samples = args.sample_counts(row);
  if (length < 1 || length > limits.max_model_len) {
    return invalid_argument("seq_lens[{}] is {}, expected 1 to {} (the model length)", row, length,
                            limits.max_model_len);
  }
  if (query < 1 || query > length) {
    return invalid_argument("query_lens[{}] is {}, expected 1 to {} (its seq_lens)", row, query, length);
  }
  if (row < args.num_decode_rows && query > kTokenWidth) {
    return invalid_argument("query_lens[{}] is {}, a decode row brings at most {} tokens", row, query, kTokenWidth);
  }
  const int64_t most = std::min(query, kTokenWidth);
  if (samples < 0 || samples > most) {
    return invalid_argument("sample_counts[{}] is {}, expected 0 to {}", row, samples, most);
  }
  return {};
}

Status check_id(std::string_view name, int64_t row, int64_t id, const StepLimits& limits) {
  if (id >= 0 && id < limits.vocab_size) return {};
  return invalid_argument("{}: row {} holds id {}, expected 0 to {} (the vocabulary)", name, row, id,
                          limits.vocab_size - 1);
}

Status check_decode_ids(const StepArgs& args, const StepLimits& limits) {
  int64_t token = 0;
  for (int64_t row = 0; row < args.num_decode_rows; ++row) {
    const int64_t query = args.query_lens(row);
    const bool idle = is_idle(args, token);
    token += query;
    const int64_t source = args.token_source.empty() ? -1 : args.token_source(row);
    if (source < -1 || source >= limits.max_num_seqs) {
      return invalid_argument("token_source[{}] is {}, expected -1 to {}", row, source, limits.max_num_seqs - 1);
    }
    if (idle) continue;  // nothing of it is computed
    for (int64_t column = source >= 0 ? 1 : 0; column < query; ++column) {
      LOCKSTEP_RETURN_IF_ERROR(check_id("token_ids", row, args.token_ids(row, column), limits));
    }
  }
  return {};
}

Status check_chunk_ids(const StepArgs& args, const StepLimits& limits, const StepTotals& totals) {
  int64_t token = totals.decode_tokens;
  for (int64_t row = args.num_decode_rows; row < totals.rows; ++row) {
    const int64_t query = args.query_lens(row);
    const bool idle = is_idle(args, token);
    for (int64_t i = 0; i < query && !idle; ++i) {
      LOCKSTEP_RETURN_IF_ERROR(check_id("input_ids", row, args.input_ids(token + i - totals.decode_tokens), limits));
    }
    token += query;
  }
  return {};
}

}  // namespace

Status check_rows(const StepArgs& args, const StepLimits& limits, StepTotals& totals) {
  LOCKSTEP_RETURN_IF_ERROR(check_row_count(args, limits, totals));
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(args.seq_lens, "seq_lens", totals.rows));
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(args.sample_counts, "sample_counts", totals.rows));
  for (int64_t row = 0; row < totals.rows; ++row) {
    LOCKSTEP_RETURN_IF_ERROR(check_row(args, limits, row));
    totals.tokens += args.query_lens(row);
    totals.sampled += args.sample_counts(row);
    if (row < args.num_decode_rows) totals.decode_tokens = totals.tokens;
  }
  if (totals.tokens > limits.max_num_batched_tokens) {
    return invalid_argument("query_lens sum to {} tokens, at most {} in a step", totals.tokens,
                            limits.max_num_batched_tokens);
  }
  if (totals.sampled > limits.max_sampled) {
    return invalid_argument("sample_counts sum to {}, at most {} in a step", totals.sampled, limits.max_sampled);
  }
  return {};
}

Status check_tokens(const StepArgs& args, const StepLimits& limits, const StepTotals& totals) {
  const int64_t decode = args.num_decode_rows;
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(args.slot_mapping, "slot_mapping", totals.tokens));
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(args.input_ids, "input_ids", totals.tokens - totals.decode_tokens));
  LOCKSTEP_RETURN_IF_ERROR(expect_vector(args.token_source, "token_source", decode, /*optional=*/true));
  if (decode > 0 && args.token_ids.empty())
    return invalid_argument("token_ids is missing, expected [{}, {}]", decode, kTokenWidth);
  if (!args.token_ids.empty() &&
      (args.token_ids.rank() != 2 || args.token_ids.extent(0) != decode || args.token_ids.extent(1) != kTokenWidth)) {
    return invalid_argument("token_ids is [{}, {}] (rank {}), expected [{}, {}]", args.token_ids.extent(0),
                            args.token_ids.extent(1), args.token_ids.rank(), decode, kTokenWidth);
  }
  LOCKSTEP_RETURN_IF_ERROR(check_decode_ids(args, limits));
  return check_chunk_ids(args, limits, totals);
}

}  // namespace lockstep::step::internal
