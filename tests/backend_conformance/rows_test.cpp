// SPDX-License-Identifier: Apache-2.0
// Rows of every kind in one step: widths up to 8, idle rows, mid-prompt chunks, scores, pooling, refusals.
#include "support.h"

namespace lockstep::conformance {
namespace {

RowSpec row_of(const std::vector<int32_t>& ids, int64_t start, int64_t count, int32_t samples, int32_t first_page) {
  RowSpec row;
  row.tokens.assign(ids.begin() + start, ids.begin() + start + count);
  row.start = start;
  row.samples = samples;
  row.pages = pages(first_page, 8);
  row.logprobs_k = 1;
  return row;
}

/// Logits, hidden states, ids and logprobs of positions 0..ids-1, one token a step.
struct OneByOne {
  std::vector<std::vector<float>> logits, hidden;
  std::vector<int32_t> sampled;
  std::vector<float> logprobs;
};

OneByOne one_by_one(Engine& engine, const std::vector<int32_t>& ids, int32_t first_page) {
  OneByOne out;
  for (int64_t t = 0; t < static_cast<int64_t>(ids.size()); ++t) {
    const StepResult result =
        engine.run(StagedStep(static_cast<uint64_t>(t) + 1, 1, {row_of(ids, t, 1, 1, first_page)}, 16, 8),
                   {.logits = true, .next_hidden = true});
    out.logits.push_back(result.logits);
    out.hidden.push_back(result.next_hidden);
    out.sampled.push_back(result.sampled_ids[0]);
    out.logprobs.push_back(result.logprobs[0]);
  }
  return out;
}

class WidthTest : public ::testing::TestWithParam<std::string> {};

/// Rows of width 1, 3 and 8 beside a mid-prompt chunk and a chunk that samples its last positions.
TEST_P(WidthTest, EachPositionEqualsOneByOneDecoding) {
  EngineSetup setup = default_setup(GetParam());
  setup.shape.max_step_width = 8;
  Engine engine = make_engine(setup);
  const std::vector<int64_t> widths = {1, 3, 8};
  std::vector<std::vector<int32_t>> ids;
  std::vector<OneByOne> expected;
  for (uint32_t i = 0; i < 5; ++i) {
    ids.push_back(random_ids(engine, 60, 100 + i));
    expected.push_back(one_by_one(engine, ids.back(), 80));
  }
  // Positions 0..starts[i]-1 are there already; the step brings the next tokens of each.
  const std::vector<int64_t> starts = {13, 30, 41, 10, 5};
  std::vector<RowSpec> before, rows;
  for (size_t i = 0; i < 5; ++i) before.push_back(row_of(ids[i], 0, starts[i], 0, static_cast<int32_t>(i) * 8));
  engine.run(StagedStep(1, 0, before, 16, 8));
  for (size_t i = 0; i < 3; ++i) {
    rows.push_back(row_of(ids[i], starts[i], widths[i], static_cast<int32_t>(widths[i]), static_cast<int32_t>(i) * 8));
  }
  rows.push_back(row_of(ids[3], starts[3], 25, 0, 24));
  rows.push_back(row_of(ids[4], starts[4], 20, 4, 32));
  const StepResult result = engine.run(StagedStep(2, 3, rows, 16, 8), {.logits = true, .next_hidden = true});
  size_t s = 0;
  const auto caps = engine.backend->capabilities();
  for (size_t r = 0; r < rows.size(); ++r) {
    EXPECT_EQ(result.row_status[r], 0);
    for (int32_t j = 0; j < rows[r].samples; ++j, ++s) {
      const auto t = static_cast<size_t>(starts[r]) + rows[r].tokens.size() - static_cast<size_t>(rows[r].samples - j);
      SCOPED_TRACE("row " + std::to_string(r) + " position " + std::to_string(t));
      const float* logits = result.logits.data() + s * static_cast<size_t>(caps.padded_vocab);
      EXPECT_TRUE(same_bits(logits, expected[r].logits[t].data(), caps.padded_vocab));
      const float* hidden = result.next_hidden.data() + s * static_cast<size_t>(caps.hidden_size);
      EXPECT_TRUE(same_bits(hidden, expected[r].hidden[t].data(), caps.hidden_size));
      EXPECT_EQ(result.sampled_ids[r * step::kTokenWidth + static_cast<size_t>(j)], expected[r].sampled[t]);
      EXPECT_TRUE(same_bits(&result.logprobs[s], &expected[r].logprobs[t], 1));
    }
  }
  EXPECT_EQ(s, 16u);
  // The chunk in mid-prompt wrote its K/V: the tokens after it agree as well.
  const StepResult after = engine.run(StagedStep(3, 1, {row_of(ids[3], 35, 1, 1, 24)}, 16, 8), {.logits = true});
  EXPECT_TRUE(same_bits(after.logits.data(), expected[3].logits[35].data(), caps.padded_vocab));
}

INSTANTIATE_TEST_SUITE_P(Models, WidthTest, ::testing::ValuesIn(subject().models()), [](const auto& one) {
  std::string name = one.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

class RowsTest : public ::testing::Test {
 protected:
  Engine engine_ = make_engine(default_setup(subject().models().front()));
  std::vector<int32_t> ids_ = random_ids(engine_, 64, 21);
  static constexpr uint32_t kWord = kPoisons[1];

  void poison_outputs(const step::StepOutputs& views) {
    for (const auto& use : engine_.driver->uses(views)) subject().fill(use.whole, kWord);
  }
  void expect_poison(const step::DeviceView& view) {
    std::vector<uint32_t> words(static_cast<size_t>(view.elements()));
    ASSERT_TRUE(engine_.backend->read(view, words.data(), static_cast<int64_t>(words.size() * sizeof(uint32_t))).ok());
    for (const uint32_t word : words) ASSERT_EQ(word, kWord);
  }
  void poison_pages() {
    for (int64_t block = 0; block < engine_.setup.num_blocks; ++block) {
      subject().fill_block(*engine_.backend, block, kWord);
    }
  }
};

TEST_F(RowsTest, IdleRowsWriteNothing) {
  const StepResult alone = engine_.run(StagedStep(1, 1, {row_of(ids_, 0, 1, 1, 0)}, 16, 8));
  poison_pages();
  RowSpec idle = row_of(ids_, 3, 4, 0, 8);
  idle.idle = true;
  RowSpec idle_chunk = row_of(ids_, 10, 30, 0, 16);
  idle_chunk.idle = true;
  const StagedStep staged(2, 2, {idle, row_of(ids_, 0, 1, 1, 0), idle_chunk, row_of(ids_, 0, 20, 1, 24)}, 16, 8);
  poison_outputs(engine_.driver->outputs(staged));
  const StepResult result = engine_.run(staged);
  for (const size_t row : {size_t{0}, size_t{2}}) {
    EXPECT_EQ(static_cast<uint32_t>(result.row_status[row]), kWord);
    for (size_t column = 0; column < 8; ++column) {
      EXPECT_EQ(static_cast<uint32_t>(result.sampled_ids[row * 8 + column]), kWord);
    }
  }
  EXPECT_EQ(result.row_status[1], 0);
  EXPECT_EQ(result.sampled_ids[8], alone.sampled_ids[0]);
  EXPECT_TRUE(same_bits(&result.logprobs[0], &alone.logprobs[0], 1));
  for (int64_t block = 8; block < 24; ++block) {
    EXPECT_TRUE(subject().block_holds(*engine_.backend, block, kWord)) << "page " << block << " of an idle row";
  }
  EXPECT_FALSE(subject().block_holds(*engine_.backend, 0, kWord));
}

TEST_F(RowsTest, AStepOfIdleRowsIsFine) {
  RowSpec idle = row_of(ids_, 0, 1, 0, 0);
  idle.idle = true;
  poison_pages();
  EXPECT_TRUE(engine_.driver->run(StagedStep(1, 2, {idle, idle}, 16, 8)));
  EXPECT_TRUE(subject().block_holds(*engine_.backend, 0, kWord));
}

TEST_F(RowsTest, RefusedStepsWriteNothingAndHarmNobody) {
  const std::vector<Request> requests = make_requests(engine_, 2, 20, 5, 3);
  const std::vector<Stream> expected = alone(engine_, requests);
  poison_pages();
  RowSpec good = row_of(ids_, 0, 5, 1, 0);
  std::vector<std::pair<const char*, StagedStep>> steps;
  RowSpec bad = row_of(ids_, 0, 5, 1, 8);
  bad.pages = {static_cast<int32_t>(engine_.setup.num_blocks)};
  steps.emplace_back("block_table", StagedStep(1, 0, {good, bad}, 16, 8));
  bad = row_of(ids_, 0, 5, 1, 0);
  steps.emplace_back("slot_mapping", StagedStep(1, 0, {good, bad}, 16, 8));
  bad = row_of(ids_, 0, 5, 1, 8);
  bad.tokens[2] = -1;
  steps.emplace_back("input_ids", StagedStep(1, 0, {good, bad}, 16, 8));
  steps.emplace_back("query_lens", StagedStep(1, 0, std::vector<RowSpec>(17, good), 16, 8));
  bad = row_of(ids_, 0, 1, 1, 8);
  bad.source = 2;
  steps.emplace_back("token_source", StagedStep(90, 1, {bad, good}, 16, 8));
  for (auto& [name, staged] : steps) {
    const step::StepOutputs views = engine_.driver->outputs(staged);
    poison_outputs(views);
    const Status status = engine_.backend->validate(staged.args, views);
    EXPECT_THAT(status.message(), ::testing::HasSubstr(name));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    const auto submitted = engine_.backend->submit(staged.args, views);
    ASSERT_FALSE(submitted) << name;
    EXPECT_EQ(submitted.error().message(), status.message());
    for (const auto& use : engine_.driver->uses(views)) expect_poison(use.whole);
    for (int64_t block = 0; block < 16; ++block)
      ASSERT_TRUE(subject().block_holds(*engine_.backend, block, kWord)) << name;
  }
  expect_same_bits(engine_.generate(requests), expected, "after refusals");
}

TEST_F(RowsTest, ScoresDontDependOnChunksOrNeighbours) {
  const auto scored = [&](int64_t start, int64_t count, int32_t first_page) {
    RowSpec row = row_of(ids_, start, count, 0, first_page);
    row.logprobs_k = -1;
    for (int64_t t = start; t < start + count; ++t) {
      row.targets.push_back(t % 5 == 4 || t == 63 ? -1 : ids_[static_cast<size_t>(t) + 1]);
    }
    return row;
  };
  const Ask ask = {.score_top_k = 3};
  const StepResult whole = engine_.run(StagedStep(1, 0, {scored(0, 64, 0)}, 16, 8), ask);
  ASSERT_EQ(whole.score_logprobs.size(), 64u);
  size_t at = 0;
  for (const int64_t count : {1, 20, 43}) {
    const auto start = static_cast<int64_t>(at);
    const StepResult part = engine_.run(
        StagedStep(2, 1, {row_of(random_ids(engine_, 4, 5), 0, 1, 1, 16), scored(start, count, 8)}, 16, 8), ask);
    const size_t n = static_cast<size_t>(count);
    // The decode row has no targets: NaN, rank 0.
    EXPECT_TRUE(std::isnan(part.score_logprobs[0]));
    EXPECT_TRUE(same_bits(part.score_logprobs.data() + 1, whole.score_logprobs.data() + at, count));
    EXPECT_TRUE(same_bits(part.score_top_logprobs.data() + 3, whole.score_top_logprobs.data() + 3 * at, 3 * count));
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(part.score_ranks[i + 1], whole.score_ranks[at + i]);
      EXPECT_EQ(part.score_top_ids[3 * (i + 1)], whole.score_top_ids[3 * (at + i)]);
      const bool none = (at + i) % 5 == 4 || at + i == 63;
      EXPECT_EQ(part.score_ranks[i + 1] == 0, none);
      EXPECT_EQ(std::isnan(part.score_logprobs[i + 1]), none);
    }
    at += n;
  }
}

TEST_F(RowsTest, PoolingDoesntDependOnChunksOrNeighbours) {
  const auto pooled = [&](int64_t start, int64_t count, step::Pooling pooling, int32_t slot, int32_t first_page) {
    RowSpec row = row_of(ids_, start, count, 0, first_page);
    row.logprobs_k = -1;
    row.pooling = pooling;
    row.pooling_slot = slot;
    return row;
  };
  const auto hidden = static_cast<size_t>(engine_.backend->capabilities().hidden_size);
  const StepResult mean = engine_.run(StagedStep(1, 0, {pooled(0, 64, step::Pooling::kMean, 0, 0)}, 16, 8));
  const StepResult last = engine_.run(StagedStep(2, 0, {pooled(0, 64, step::Pooling::kLast, 0, 0)}, 16, 8));
  engine_.run(StagedStep(3, 0, {pooled(0, 7, step::Pooling::kMean, 5, 0)}, 16, 8));
  engine_.run(
      StagedStep(4, 0, {pooled(0, 9, step::Pooling::kMean, 2, 8), pooled(7, 30, step::Pooling::kMean, 5, 0)}, 16, 8));
  const StepResult result =
      engine_.run(StagedStep(5, 1,
                             {row_of(ids_, 0, 1, 1, 24), pooled(37, 27, step::Pooling::kMean, 5, 0),
                              pooled(0, 64, step::Pooling::kLast, 0, 16)},
                             16, 8));
  EXPECT_TRUE(same_bits(result.pooled.data() + hidden, mean.pooled.data(), static_cast<int64_t>(hidden)));
  EXPECT_TRUE(same_bits(result.pooled.data() + 2 * hidden, last.pooled.data(), static_cast<int64_t>(hidden)));
  EXPECT_FALSE(same_bits(mean.pooled.data(), last.pooled.data(), static_cast<int64_t>(hidden)));
}

TEST_F(RowsTest, CopiedBlocksGoOnAsTheirSource) {
  engine_.run(StagedStep(1, 0, {row_of(ids_, 0, 40, 0, 0)}, 16, 8));
  for (int64_t block = 0; block < 3; ++block) ASSERT_TRUE(engine_.backend->copy_block(block, 50 + block).ok());
  const StepResult source = engine_.run(StagedStep(2, 1, {row_of(ids_, 40, 1, 1, 0)}, 16, 8), {.logits = true});
  const StepResult copy = engine_.run(StagedStep(3, 1, {row_of(ids_, 40, 1, 1, 50)}, 16, 8), {.logits = true});
  EXPECT_TRUE(same_bits(source.logits.data(), copy.logits.data(), static_cast<int64_t>(source.logits.size())));
  EXPECT_FALSE(engine_.backend->copy_block(0, engine_.setup.num_blocks).ok());
  EXPECT_FALSE(engine_.backend->copy_block(-1, 0).ok());
}

}  // namespace
}  // namespace lockstep::conformance
