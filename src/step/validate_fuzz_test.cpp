// SPDX-License-Identifier: Apache-2.0
// Random steps against validate_step: it never reads outside the views and its answer agrees with a slow, plain check.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "step/testing.h"
#include "step/validate.h"

namespace lockstep::step {
namespace {

using testing::RowSpec;
using testing::StagedStep;

class Fuzz {
 public:
  explicit Fuzz(uint32_t seed) : random_(seed) {
    limits_.max_num_seqs = 6;
    limits_.max_num_batched_tokens = 50;
    limits_.max_sampled = 20;
    limits_.max_model_len = 100;
    limits_.vocab_size = 77;
    limits_.padded_vocab = 512;
    limits_.hidden_size = 4;
    limits_.kv.block_size = 16;
    limits_.kv.num_blocks = 40;
  }
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  /// A valid step of 1..6 rows on distinct pages.
  StagedStep valid_step() {
    std::vector<int32_t> pages(40);
    for (int32_t i = 0; i < 40; ++i) pages[static_cast<size_t>(i)] = i;
    std::shuffle(pages.begin(), pages.end(), random_);
    const int count = pick(1, 6);
    const int decode = pick(0, count);
    std::vector<RowSpec> rows;
    for (int r = 0; r < count; ++r) {
      RowSpec row;
      row.tokens.assign(static_cast<size_t>(pick(1, 8)), 0);
      for (int32_t& id : row.tokens) id = pick(0, 76);
      row.start = pick(0, 80);
      row.idle = pick(0, 9) == 0;
      row.samples = row.idle ? 0 : pick(0, std::min(3, static_cast<int>(row.tokens.size())));
      for (int p = 0; p < 6; ++p) row.pages.push_back(pages[static_cast<size_t>(r * 6 + p)]);
      rows.push_back(row);
    }
    return StagedStep(1, decode, rows, 16, 6);
  }

  /// Changes one random entry of one random argument.
  void damage(StagedStep& step) {
    std::vector<int32_t>* targets[] = {&step.token_ids, &step.input_ids,     &step.sources, &step.query_lens,
                                       &step.seq_lens,  &step.sample_counts, &step.table,   &step.slots};
    std::vector<int32_t>& target = *targets[pick(0, 7)];
    if (target.empty()) return;
    const int kinds[] = {-1, 0, 1, 8, 9, 100, 1 << 30, -(1 << 30), pick(-3, 80)};
    target[static_cast<size_t>(pick(0, static_cast<int>(target.size()) - 1))] = kinds[pick(0, 8)];
  }

  /// The contract once more, written without regard to cost or messages.
  bool plainly_valid(const StagedStep& step) const {
    int64_t token = 0, sampled = 0, packed = 0;
    std::set<int32_t> seen;
    for (int64_t r = 0; r < step.rows(); ++r) {
      const auto row = static_cast<size_t>(r);
      const int64_t query = step.query_lens[row], length = step.seq_lens[row], samples = step.sample_counts[row];
      const bool decode = r < step.args.num_decode_rows;
      if (query < 1 || query > length || length > 100 || (decode && query > 8)) return false;
      if (samples < 0 || samples > std::min<int64_t>(8, query) || token + query > step.tokens()) return false;
      sampled += samples;
      const bool idle = step.slots[static_cast<size_t>(token)] == -1;
      if (idle && samples != 0) return false;
      const int32_t source = decode ? step.sources[row] : -1;
      if (source < -1 || source > 5) return false;
      for (int64_t i = 0; i < query; ++i, ++token) {
        const int64_t position = length - query + i;
        if (!decode && packed >= static_cast<int64_t>(step.input_ids.size())) return false;
        const int32_t id =
            decode ? step.token_ids[row * 8 + static_cast<size_t>(i)] : step.input_ids[static_cast<size_t>(packed++)];
        const int32_t slot = step.slots[static_cast<size_t>(token)];
        if (idle && slot != -1) return false;
        if (idle) continue;
        if (!(source >= 0 && i == 0) && (id < 0 || id > 76)) return false;
        for (int64_t p = 0; p <= (length - 1) / 16; ++p) {
          if (p >= 6) return false;
          const int32_t page = step.table[row * 6 + static_cast<size_t>(p)];
          if (page < 0 || page > 39) return false;
        }
        if (slot != step.table[row * 6 + static_cast<size_t>(position / 16)] * 16 + position % 16) return false;
        if (!seen.insert(slot).second) return false;
      }
    }
    return token == step.tokens() && token <= 50 && sampled <= 20 &&
           packed == static_cast<int64_t>(step.input_ids.size());
  }

  const StepLimits& limits() const { return limits_; }

 private:
  std::mt19937 random_;
  StepLimits limits_;
};

TEST(ValidateStepFuzz, AgreesWithAPlainCheck) {
  Fuzz fuzz(20261130);
  ValidationScratch scratch(fuzz.limits());
  std::vector<int32_t> storage(6 * 8 + 6);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    StagedStep step = fuzz.valid_step();
    for (int n = fuzz.pick(0, 3); n > 0; --n) fuzz.damage(step);
    StepOutputs outputs;
    outputs.sampled_ids = {storage.data(), DType::kI32, {step.rows(), kTokenWidth}};
    outputs.row_status = {storage.data() + 48, DType::kI32, {step.rows()}};
    const Status status = validate_step(step.args, outputs, fuzz.limits(), scratch);
    ASSERT_EQ(status.ok(), fuzz.plainly_valid(step)) << "round " << round << ": " << status.to_string();
    (status.ok() ? accepted : refused) += 1;
  }
  EXPECT_GT(accepted, 2000);
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace lockstep::step
