// SPDX-License-Identifier: Apache-2.0
// Two steps in flight: column 0 fed on the device from the step before, also when that step was split into calls.
#include <deque>

#include "support.h"

namespace lockstep::conformance {
namespace {

/// Output buffers of one step: [rows, 8] ids and [rows] status.
struct Outputs {
  Outputs(backend::Backend& backend, int64_t rows)
      : ids(std::move(*backend.allocate(DType::kI32, rows, step::kTokenWidth, 2))),
        status(std::move(*backend.allocate(DType::kI32, rows, 0, 1))) {}
  step::StepOutputs views(int64_t first, int64_t rows) const {
    step::StepOutputs out;
    out.sampled_ids = ids->view().slice(first, rows);
    out.row_status = status->view().slice(first, rows);
    return out;
  }
  std::unique_ptr<backend::DeviceBuffer> ids, status;
};

class PipelineTest : public ::testing::Test {
 protected:
  static constexpr int64_t kRows = 3;
  static constexpr int64_t kSteps = 12;

  PipelineTest() {
    requests_ = make_requests(engine_, kRows, 30, kSteps, 8);
    for (Request& request : requests_) request.logprobs_k = -1;
    expected_ = alone(engine_, requests_);
  }

  /// Step `number`: 0 is the prompts, later ones one token a row whose id the host does not know yet. Row r of a step
  /// takes its id from row (r + 1) % kRows of the step before: requests move around.
  StagedStep stage(int64_t number, int64_t first, int64_t rows) const {
    std::vector<RowSpec> specs;
    for (int64_t r = first; r < first + rows; ++r) {
      const auto owner = static_cast<size_t>((r + number) % kRows);
      RowSpec row;
      row.samples = 1;
      row.pages = pages(static_cast<int32_t>(owner) * 8, 8);
      row.temperature = requests_[owner].temperature;
      row.seed = requests_[owner].seed;
      if (number == 0) {
        row.tokens = requests_[owner].prompt;
      } else {
        row.tokens = {-1};  // must not be looked at
        row.start = static_cast<int64_t>(requests_[owner].prompt.size()) + number - 1;
        row.source = static_cast<int32_t>((r + 1) % kRows);
      }
      specs.push_back(std::move(row));
    }
    return StagedStep(static_cast<uint64_t>(number) + 1, number == 0 ? 0 : rows, specs, 16, 8);
  }

  void expect_ids(const Outputs& outputs, int64_t number) {
    std::vector<int32_t> ids(kRows * step::kTokenWidth);
    ASSERT_TRUE(engine_.backend->read(outputs.ids->view(), ids.data(), static_cast<int64_t>(ids.size() * 4)).ok());
    for (int64_t r = 0; r < kRows; ++r) {
      const auto owner = static_cast<size_t>((r + number) % kRows);
      EXPECT_EQ(ids[static_cast<size_t>(r * step::kTokenWidth)], expected_[owner].ids[static_cast<size_t>(number)])
          << "step " << number << " row " << r;
    }
  }

  Engine engine_ = make_engine(default_setup(subject().models().front()));
  std::vector<Request> requests_;
  std::vector<Stream> expected_;
};

TEST_F(PipelineTest, TwoStepsInFlight) {
  std::deque<StagedStep> staged;
  std::deque<Outputs> outputs;
  std::deque<backend::StepTicket> tickets;
  for (int64_t number = 0; number < kSteps; ++number) {
    staged.push_back(stage(number, 0, kRows));
    outputs.emplace_back(*engine_.backend, kRows);
    const auto ticket = engine_.backend->submit(staged.back().args, outputs.back().views(0, kRows));
    ASSERT_TRUE(ticket) << ticket.error().to_string();
    tickets.push_back(*ticket);
    if (number > 0) {
      ASSERT_TRUE(engine_.backend->wait(tickets[static_cast<size_t>(number) - 1]).ok());
      expect_ids(outputs[static_cast<size_t>(number) - 1], number - 1);
    }
  }
  ASSERT_TRUE(engine_.backend->wait(tickets.back()).ok());
  expect_ids(outputs.back(), kSteps - 1);
}

TEST_F(PipelineTest, AThirdStepInFlightIsRefused) {
  const StagedStep first = stage(0, 0, kRows);
  Outputs outputs(*engine_.backend, kRows);
  const auto a = engine_.backend->submit(first.args, outputs.views(0, kRows));
  const StagedStep second = stage(1, 0, kRows);
  Outputs more(*engine_.backend, kRows);
  const auto b = engine_.backend->submit(second.args, more.views(0, kRows));
  ASSERT_TRUE(a && b);
  const StagedStep third = stage(2, 0, kRows);
  Outputs most(*engine_.backend, kRows);
  const auto c = engine_.backend->submit(third.args, most.views(0, kRows));
  ASSERT_FALSE(c);
  EXPECT_EQ(c.error().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(engine_.backend->wait(*a).ok());
  const auto again = engine_.backend->submit(third.args, most.views(0, kRows));
  ASSERT_TRUE(again) << again.error().to_string();
  ASSERT_TRUE(engine_.backend->wait(*b).ok());
  ASSERT_TRUE(engine_.backend->wait(*again).ok());
  expect_ids(most, 2);
}

TEST_F(PipelineTest, CallsOfASplitStepShareOneBuffer) {
  std::deque<Outputs> outputs;
  for (int64_t number = 0; number < kSteps; ++number) {
    outputs.emplace_back(*engine_.backend, kRows);
    // Rows 1..2 first, then row 0: the order of the calls does not matter either.
    for (const auto& [first, rows] : std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {0, 1}}) {
      const StagedStep staged = stage(number, first, rows);
      const auto ticket = engine_.backend->submit(staged.args, outputs.back().views(first, rows));
      ASSERT_TRUE(ticket) << ticket.error().to_string();
      ASSERT_TRUE(engine_.backend->wait(*ticket).ok());
    }
    expect_ids(outputs.back(), number);
  }
}

TEST_F(PipelineTest, OnlyRowsThatSampledCanFeed) {
  StagedStep first = stage(0, 0, kRows);
  first.sample_counts[1] = 0;
  Outputs outputs(*engine_.backend, kRows);
  auto ticket = engine_.backend->submit(first.args, outputs.views(0, kRows));
  ASSERT_TRUE(ticket);
  ASSERT_TRUE(engine_.backend->wait(*ticket).ok());
  const StagedStep second = stage(1, 0, kRows);
  ticket = engine_.backend->submit(second.args, outputs.views(0, kRows));
  ASSERT_FALSE(ticket);
  EXPECT_THAT(ticket.error().message(), ::testing::HasSubstr("token_source[0] is 1"));
}

}  // namespace
}  // namespace lockstep::conformance
