// SPDX-License-Identifier: Apache-2.0
// Random steps: whatever validate() accepts runs, whatever it refuses leaves the backend as it was.
#include <random>

#include "support.h"

namespace lockstep::conformance {
namespace {

class Fuzz {
 public:
  Fuzz(Engine& engine, uint32_t seed)
      : engine_(engine), random_(seed), vocab_(static_cast<int>(engine.backend->capabilities().vocab_size)) {}

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  StagedStep step(uint64_t id) {
    const int count = pick(1, 6);
    const int decode = pick(0, count);
    std::vector<int32_t> order = pages(0, 60);
    std::shuffle(order.begin(), order.end(), random_);
    std::vector<RowSpec> rows;
    for (int r = 0; r < count; ++r) {
      RowSpec row;
      row.tokens.assign(static_cast<size_t>(pick(1, r < decode ? 8 : 30)), 0);
      for (int32_t& token : row.tokens) token = pick(0, vocab_ - 1);
      row.start = pick(0, 100);
      row.idle = pick(0, 7) == 0;
      row.samples = row.idle ? 0 : pick(0, std::min(2, static_cast<int>(row.tokens.size())));
      for (int p = 0; p < 10; ++p) row.pages.push_back(order[static_cast<size_t>(r * 10 + p)]);
      row.source = r < decode && pick(0, 3) == 0 ? pick(0, 5) : -1;
      row.logprobs_k = pick(-1, 20);
      row.temperature = static_cast<float>(pick(0, 2));
      row.seed = random_();
      if (!row.idle && pick(0, 3) == 0) row.pooling = static_cast<step::Pooling>(pick(0, 2));
      row.pooling_slot = r;
      if (pick(0, 3) == 0) {
        for (size_t t = 0; t < row.tokens.size(); ++t) row.targets.push_back(row.idle ? -1 : pick(-1, vocab_ - 1));
      }
      rows.push_back(std::move(row));
    }
    return StagedStep(id, decode, rows, 16, 10);
  }

  void damage(StagedStep& step) {
    std::vector<int32_t>* targets[] = {&step.token_ids, &step.input_ids, &step.sources,       &step.query_lens,
                                       &step.seq_lens,  &step.table,     &step.sample_counts, &step.slots,
                                       &step.targets,   &step.pooling,   &step.pooling_slots, &step.logprobs_k};
    std::vector<int32_t>& target = *targets[pick(0, 11)];
    if (target.empty()) return;
    const int values[] = {-2, -1, 0, 1, 9, 161, 1 << 30, -(1 << 30), pick(-3, 200)};
    target[static_cast<size_t>(pick(0, static_cast<int>(target.size()) - 1))] = values[pick(0, 8)];
  }

 private:
  Engine& engine_;
  std::mt19937 random_;
  int vocab_;
};

TEST(Fuzz, AcceptedStepsRunAndRefusedOnesHarmNobody) {
  EngineSetup setup = default_setup(subject().models().front());
  setup.shape.max_step_width = 2;
  Engine engine = make_engine(setup);
  const std::vector<Request> requests = make_requests(engine, 3, 20, 4, 6);
  const std::vector<Stream> expected = alone(engine, requests);
  Fuzz fuzz(engine, 4242);
  int accepted = 0, refused = 0;
  for (uint64_t round = 1; round <= 400; ++round) {
    StagedStep staged = fuzz.step(round);
    for (int n = fuzz.pick(0, 2); n > 0; --n) fuzz.damage(staged);
    const Ask ask = {
        .logits = fuzz.pick(0, 3) == 0, .next_hidden = fuzz.pick(0, 1) == 0, .score_top_k = fuzz.pick(0, 3)};
    // Sizes that the damage made nonsense would ask for output views past the buffers.
    const bool sane = staged.sampled() >= 0 && staged.sampled() <= 12;
    if (!sane) continue;
    const step::StepOutputs views = engine.driver->outputs(staged, ask);
    if (!engine.backend->validate(staged.args, views).ok()) {
      EXPECT_FALSE(engine.backend->submit(staged.args, views));
      ++refused;
      continue;
    }
    const auto result = engine.driver->run(staged, ask);
    ASSERT_TRUE(result) << result.error().to_string();
    ++accepted;
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 50);
  expect_same_bits(engine.generate(requests), expected, "after the fuzz");
}

}  // namespace
}  // namespace lockstep::conformance
