// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/step_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "step/testing.h"

namespace lockstep::backend::cpu_detail {
namespace {

using step::testing::RowSpec;
using step::testing::StagedStep;
using ::testing::HasSubstr;

class StepHistoryTest : public ::testing::Test {
 protected:
  /// `rows` decode rows that sample `samples` ids each and take column 0 from `source`.
  static StagedStep step(uint64_t id, int64_t rows, int32_t samples, int32_t source) {
    RowSpec row;
    row.tokens = {1};
    row.samples = samples;
    row.pages = {0};
    row.source = source;
    return StagedStep(id, rows, std::vector<RowSpec>(static_cast<size_t>(rows), row), 16, 1);
  }
  step::StepOutputs at(int64_t first_row, int64_t rows) {
    step::StepOutputs out;
    out.sampled_ids = {ids_.data() + first_row * step::kTokenWidth, DType::kI32, {rows, step::kTokenWidth}};
    return out;
  }
  std::vector<int32_t> ids_ = std::vector<int32_t>(8 * step::kTokenWidth);
  StepHistory history_{8};
};

TEST_F(StepHistoryTest, FeedsFromTheStepBefore) {
  const int64_t entry = history_.plan(step(5, 3, 1, -1).args, at(0, 3));
  for (int32_t row = 0; row < 3; ++row) history_.record(5, entry + row, 100 + row);
  EXPECT_TRUE(history_.check(step(6, 1, 1, 2).args).ok());
  EXPECT_EQ(history_.resolve(5, 2), 102);
}

TEST_F(StepHistoryTest, NumbersRowsOverTheCallsOfASplitStep) {
  // The calls are planned out of address order: rows 4..5, then 0..3.
  const int64_t high = history_.plan(step(7, 2, 1, -1).args, at(4, 2));
  const int64_t low = history_.plan(step(7, 4, 1, -1).args, at(0, 4));
  history_.record(7, high + 1, 55);
  history_.record(7, low + 3, 33);
  EXPECT_TRUE(history_.check(step(8, 1, 1, 5).args).ok());
  EXPECT_EQ(history_.resolve(7, 5), 55);
  EXPECT_EQ(history_.resolve(7, 3), 33);
}

TEST_F(StepHistoryTest, RefusesWhatIsNotThere) {
  EXPECT_THAT(history_.check(step(6, 1, 1, 0).args).message(), HasSubstr("token_source[0] is 0"));
  history_.plan(step(5, 2, 1, -1).args, at(0, 2));
  EXPECT_THAT(history_.check(step(6, 1, 1, 2).args).message(),
              HasSubstr("token_source[0] is 2, expected a row of step 5"));
  EXPECT_THAT(history_.check(step(7, 1, 1, 0).args).message(), HasSubstr("not the step before"));
  history_.plan(step(8, 2, 0, -1).args, at(0, 2));
  EXPECT_THAT(history_.check(step(9, 1, 1, 0).args).message(), HasSubstr("sampled an id"));
}

TEST_F(StepHistoryTest, ARepeatedIdStartsOver) {
  history_.plan(step(5, 8, 1, -1).args, at(0, 8));
  const int64_t entry = history_.plan(step(5, 2, 1, -1).args, at(0, 2));
  EXPECT_EQ(entry, 0);
  EXPECT_FALSE(history_.check(step(6, 1, 1, 3).args).ok());
}

}  // namespace
}  // namespace lockstep::backend::cpu_detail
