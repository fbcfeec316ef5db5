// SPDX-License-Identifier: Apache-2.0
// Every refusal of the step contract: the message names the argument and holds the value and the limit.
#include "step/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "step/testing.h"

namespace lockstep::step {
namespace {

using ::testing::HasSubstr;
using testing::RowSpec;
using testing::StagedStep;

constexpr int64_t kBlock = 16;
constexpr int64_t kColumns = 4;

StepLimits limits() {
  StepLimits out;
  out.max_num_seqs = 4;
  out.max_num_batched_tokens = 40;
  out.max_sampled = 12;
  out.max_model_len = 64;
  out.vocab_size = 100;
  out.padded_vocab = 512;
  out.hidden_size = 8;
  out.kv.block_size = kBlock;
  out.kv.num_blocks = 10;
  return out;
}

std::vector<RowSpec> rows() {
  RowSpec decode;
  decode.tokens = {5};
  decode.start = 16;  // position 16: second page
  decode.samples = 1;
  decode.pages = {3, 7};
  RowSpec verify;
  verify.tokens = {1, 2, 3};
  verify.start = 4;
  verify.samples = 3;
  verify.pages = {1};
  RowSpec chunk;
  chunk.tokens = std::vector<int32_t>(20, 9);
  chunk.start = 10;
  chunk.pages = {0, 9};
  return {decode, verify, chunk};
}

/// A valid step of three rows and outputs that fit it; tests break one thing.
struct Fixture {
  explicit Fixture(std::vector<RowSpec> specs = rows(), int64_t decode = 2)
      : staged(1, decode, specs, kBlock, kColumns), storage(1 << 16) {
    outputs.sampled_ids = out(DType::kI32, {staged.rows(), kTokenWidth});
    outputs.row_status = out(DType::kI32, {staged.rows()});
  }
  DeviceView out(DType dtype, std::initializer_list<int64_t> shape) { return {storage.data(), dtype, shape}; }
  Status check(const StepLimits& limit = limits()) {
    ValidationScratch scratch(limit);
    return validate_step(staged.args, outputs, limit, scratch);
  }
  StagedStep staged;
  std::vector<float> storage;
  StepOutputs outputs;
};

void expect_refused(Fixture& fixture, std::initializer_list<const char*> parts, const StepLimits& limit = limits()) {
  const Status status = fixture.check(limit);
  ASSERT_FALSE(status.ok()) << "expected a refusal about " << *parts.begin();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  for (const char* part : parts) EXPECT_THAT(status.message(), HasSubstr(part));
}

TEST(ValidateStep, AcceptsAMixedStep) { EXPECT_TRUE(Fixture().check().ok()) << Fixture().check().to_string(); }

TEST(ValidateStep, AcceptsAnIdleRowWithoutPagesOrIds) {
  auto specs = rows();
  specs[0].idle = true;
  specs[0].samples = 0;
  specs[0].pages.clear();
  specs[0].tokens = {-1};
  EXPECT_TRUE(Fixture(specs).check().ok()) << Fixture(specs).check().to_string();
}

TEST(ValidateStep, RefusesRowCounts) {
  Fixture none;
  none.staged.args.query_lens = {none.staged.query_lens.data(), {0}};
  expect_refused(none, {"query_lens", "0 rows", "1 to 4"});
  Fixture missing;
  missing.staged.args.query_lens = {};
  expect_refused(missing, {"query_lens", "missing"});
  std::vector<RowSpec> five(5, rows()[0]);
  for (int32_t i = 0; i < 5; ++i) five[static_cast<size_t>(i)].pages = {i, i + 5};
  Fixture many(five, 5);
  expect_refused(many, {"query_lens", "5 rows", "1 to 4"});
  StepLimits set = limits();
  set.batch_sizes = {1, 16};
  Fixture excluded;
  expect_refused(excluded, {"query_lens", "3 rows", "1, 16"}, set);
  Fixture decode;
  decode.staged.args.num_decode_rows = 4;
  expect_refused(decode, {"num_decode_rows", "4", "3"});
  decode.staged.args.num_decode_rows = -1;
  expect_refused(decode, {"num_decode_rows", "-1"});
}

TEST(ValidateStep, RefusesShapes) {
  struct Break {
    const char* name;
    std::function<void(StepArgs&)> apply;
  };
  static std::vector<int32_t> spare(64, 0);
  const std::vector<Break> breaks = {
      {"seq_lens", [](StepArgs& a) { a.seq_lens = a.seq_lens.prefix(2); }},
      {"seq_lens", [](StepArgs& a) { a.seq_lens = {}; }},
      {"seq_lens", [](StepArgs& a) { a.seq_lens = {spare.data(), {3, 1}}; }},
      {"sample_counts", [](StepArgs& a) { a.sample_counts = a.sample_counts.prefix(1); }},
      {"slot_mapping", [](StepArgs& a) { a.slot_mapping = a.slot_mapping.prefix(23); }},
      {"slot_mapping", [](StepArgs& a) { a.slot_mapping = {}; }},
      {"input_ids", [](StepArgs& a) { a.input_ids = a.input_ids.prefix(19); }},
      {"input_ids", [](StepArgs& a) { a.input_ids = {}; }},
      {"token_source", [](StepArgs& a) { a.token_source = a.token_source.prefix(1); }},
      {"token_ids", [](StepArgs& a) { a.token_ids = a.token_ids.prefix(1); }},
      {"token_ids", [](StepArgs& a) { a.token_ids = {}; }},
      {"token_ids", [](StepArgs& a) { a.token_ids = {spare.data(), {2, 7}}; }},
      {"token_ids", [](StepArgs& a) { a.token_ids = {spare.data(), {16}}; }},
      {"block_table", [](StepArgs& a) { a.block_table = a.block_table.prefix(2); }},
      {"block_table", [](StepArgs& a) { a.block_table = {}; }},
      {"block_table", [](StepArgs& a) { a.block_table = {spare.data(), {3}}; }},
      {"score_targets", [](StepArgs& a) { a.score_targets = {spare.data(), {23}}; }},
      {"pooling", [](StepArgs& a) { a.pooling = {spare.data(), {2}}; }},
      {"pooling_slot", [](StepArgs& a) { a.pooling_slot = {spare.data(), {2}}; }},
  };
  for (const Break& one : breaks) {
    Fixture fixture;
    one.apply(fixture.staged.args);
    expect_refused(fixture, {one.name});
  }
}

TEST(ValidateStep, RefusesLengths) {
  Fixture wide;
  wide.staged.query_lens[1] = 9;
  wide.staged.seq_lens[1] = 12;
  expect_refused(wide, {"query_lens[1] is 9", "at most 8"});
  Fixture zero;
  zero.staged.query_lens[2] = 0;
  expect_refused(zero, {"query_lens[2] is 0"});
  Fixture over;
  over.staged.query_lens[0] = 18;
  expect_refused(over, {"query_lens[0] is 18", "17"});
  Fixture context;
  context.staged.seq_lens[2] = 65;
  expect_refused(context, {"seq_lens[2] is 65", "64"});
  Fixture samples;
  samples.staged.sample_counts[1] = 4;
  expect_refused(samples, {"sample_counts[1] is 4", "0 to 3"});
  samples.staged.sample_counts[1] = -1;
  expect_refused(samples, {"sample_counts[1] is -1"});
  Fixture chunk;
  chunk.staged.sample_counts[2] = 9;
  expect_refused(chunk, {"sample_counts[2] is 9", "0 to 8"});
  StepLimits few = limits();
  few.max_num_batched_tokens = 23;
  Fixture tokens;
  expect_refused(tokens, {"24 tokens", "at most 23"}, few);
  few = limits();
  few.max_sampled = 3;
  Fixture sampled;
  expect_refused(sampled, {"sample_counts sum to 4", "at most 3"}, few);
}

TEST(ValidateStep, RefusesTokenIds) {
  Fixture decode;
  decode.staged.token_ids[10] = 100;  // row 1, column 2
  expect_refused(decode, {"token_ids", "row 1", "100", "99"});
  decode.staged.token_ids[10] = -1;
  expect_refused(decode, {"token_ids", "row 1", "-1"});
  Fixture chunk;
  chunk.staged.input_ids[19] = 100;
  expect_refused(chunk, {"input_ids", "row 2", "100"});
  Fixture source;
  source.staged.sources[1] = 4;
  expect_refused(source, {"token_source[1] is 4", "3"});
  source.staged.sources[1] = -2;
  expect_refused(source, {"token_source[1] is -2"});
  Fixture ignored;  // column 0 is fed on the device: what stands there isn't looked at
  ignored.staged.sources[0] = 2;
  ignored.staged.token_ids[0] = -5;
  EXPECT_TRUE(ignored.check().ok());
}

TEST(ValidateStep, RefusesPagesAndSlots) {
  Fixture narrow;
  narrow.staged.args.block_table = {narrow.staged.table.data(), {3, 1}};
  expect_refused(narrow, {"block_table", "row 0", "2 pages", "position 16", "1 columns"});
  Fixture cut;
  cut.staged.table[1] = -1;
  expect_refused(cut, {"block_table", "row 0", "has 1 pages", "needs 2"});
  Fixture outside;
  outside.staged.table[1] = 10;
  expect_refused(outside, {"block_table[0, 1] is page 10", "0 to 9"});
  outside.staged.table[1] = -2;
  expect_refused(outside, {"block_table[0, 1] is page -2"});
  Fixture other;
  other.staged.slots[0] += 1;
  expect_refused(other, {"slot_mapping[0] is 113", "expected 112", "position 16"});
  Fixture beside;
  beside.staged.slots[2] = -1;
  expect_refused(beside, {"slot_mapping[2] is -1", "row 1"});
  Fixture first;
  first.staged.slots[1] = -1;
  expect_refused(first, {"slot_mapping[2]", "row 1"});
}

TEST(ValidateStep, RefusesTwoTokensWithOneSlot) {
  auto specs = rows();
  specs[1] = specs[0];
  Fixture twins(specs);
  expect_refused(twins, {"slot_mapping", "two tokens", "112"});
  specs = rows();
  specs[2].pages = {0, 0};
  specs[2].start = 0;
  Fixture self(specs);
  expect_refused(self, {"slot_mapping", "two tokens", "slot 0"});
}

TEST(ValidateStep, RefusesWorkInAnIdleRow) {
  auto specs = rows();
  specs[0].idle = true;
  Fixture sample(specs);
  expect_refused(sample, {"sample_counts[0] is 1", "idle"});
  specs[0].samples = 0;
  specs[0].targets = {3};
  Fixture score(specs);
  expect_refused(score, {"score_targets[0] is 3", "idle row 0"});
  specs[0].targets.clear();
  specs[0].pooling = Pooling::kLast;
  Fixture pool(specs);
  expect_refused(pool, {"pooling[0] is 1", "idle"});
}

TEST(ValidateStep, RefusesScoreAndPooling) {
  auto specs = rows();
  specs[1].targets = {1, 100, -1};
  Fixture target(specs);
  expect_refused(target, {"score_targets[2] is 100", "99"});
  specs[1].targets = {1, -2, -1};
  Fixture negative(specs);
  expect_refused(negative, {"score_targets[2] is -2"});
  specs = rows();
  specs[1].pooling = static_cast<Pooling>(3);
  Fixture kind(specs);
  expect_refused(kind, {"pooling[1] is 3", "0 to 2"});
  specs[1].pooling = Pooling::kMean;
  specs[1].pooling_slot = 4;
  Fixture slot(specs);
  expect_refused(slot, {"pooling_slot[1] is 4", "0 to 3"});
  specs[1].pooling_slot = 0;
  specs[2].pooling = Pooling::kMean;
  Fixture shared(specs);
  expect_refused(shared, {"pooling_slot", "rows 1 and 2", "slot 0"});
  specs[2].pooling = Pooling::kNone;
  Fixture missing(specs);
  missing.staged.args.pooling_slot = {};
  expect_refused(missing, {"pooling_slot is missing"});
}

TEST(ValidateStep, RefusesOutputs) {
  struct Break {
    const char* name;
    std::function<void(Fixture&)> apply;
  };
  const auto top = [](Fixture& f) {
    f.staged.logprobs_k[0] = 2;
    f.outputs.logprobs = f.out(DType::kF32, {4});
    f.outputs.top_ids = f.out(DType::kI32, {4, 2});
    f.outputs.top_logprobs = f.out(DType::kF32, {4, 2});
  };
  Fixture good;
  top(good);
  ASSERT_TRUE(good.check().ok()) << good.check().to_string();
  const std::vector<Break> breaks = {
      {"sampled_ids is missing", [](Fixture& f) { f.outputs.sampled_ids = {}; }},
      {"sampled_ids has type f32", [](Fixture& f) { f.outputs.sampled_ids = f.out(DType::kF32, {3, 8}); }},
      {"sampled_ids has 2 rows", [](Fixture& f) { f.outputs.sampled_ids = f.out(DType::kI32, {2, 8}); }},
      {"sampled_ids has 1 columns", [](Fixture& f) { f.outputs.sampled_ids = f.out(DType::kI32, {3, 1}); }},
      {"sampled_ids has rank 1", [](Fixture& f) { f.outputs.sampled_ids = f.out(DType::kI32, {24}); }},
      {"row_status is missing", [](Fixture& f) { f.outputs.row_status = {}; }},
      {"row_status has 4 rows", [](Fixture& f) { f.outputs.row_status = f.out(DType::kI32, {4}); }},
      {"logprobs is missing", [](Fixture& f) { f.outputs.logprobs = {}; }},
      {"logprobs has 3 rows", [](Fixture& f) { f.outputs.logprobs = f.out(DType::kF32, {3}); }},
      {"top_ids is missing", [](Fixture& f) { f.outputs.top_ids = {}; }},
      {"top_ids has 3 columns", [](Fixture& f) { f.outputs.top_ids = f.out(DType::kI32, {4, 3}); }},
      {"top_logprobs is missing", [](Fixture& f) { f.outputs.top_logprobs = {}; }},
      {"top_ids is given", [](Fixture& f) { f.staged.logprobs_k[0] = 0; }},
      {"logits has 100 columns", [](Fixture& f) { f.outputs.logits = f.out(DType::kF32, {4, 100}); }},
      {"next_hidden has 3 rows", [](Fixture& f) { f.outputs.next_hidden = f.out(DType::kF32, {3, 8}); }},
      {"pooled has 7 columns", [](Fixture& f) { f.outputs.pooled = f.out(DType::kF32, {3, 7}); }},
      {"score_logprobs is given", [](Fixture& f) { f.outputs.score_logprobs = f.out(DType::kF32, {24}); }},
  };
  for (const Break& one : breaks) {
    Fixture fixture;
    top(fixture);
    one.apply(fixture);
    expect_refused(fixture, {one.name});
  }
}

TEST(ValidateStep, RefusesScoreOutputs) {
  auto specs = rows();
  specs[1].targets = {1, 2, -1};
  Fixture fixture(specs);
  expect_refused(fixture, {"score_logprobs is missing"});
  fixture.outputs.score_logprobs = fixture.out(DType::kF32, {24});
  EXPECT_TRUE(fixture.check().ok());
  fixture.outputs.score_ranks = fixture.out(DType::kF32, {24});
  expect_refused(fixture, {"score_ranks has type f32"});
  fixture.outputs.score_ranks = {};
  fixture.outputs.score_top_ids = fixture.out(DType::kI32, {24, 5});
  expect_refused(fixture, {"score_top_logprobs is missing"});
  fixture.outputs.score_top_logprobs = fixture.out(DType::kF32, {24, 4});
  expect_refused(fixture, {"score_top_logprobs has 4 columns", "expected 5"});
  fixture.outputs.score_top_ids = fixture.out(DType::kI32, {24, 21});
  expect_refused(fixture, {"score_top_ids has 21 columns", "20"});
  auto pooled = rows();
  pooled[0].pooling = Pooling::kLast;
  Fixture pool(pooled);
  expect_refused(pool, {"pooled is missing"});
}

TEST(ValidateStep, RefusesSampling) {
  struct Break {
    const char* name;
    std::function<void(SamplingView&)> apply;
  };
  static const float nan = std::numeric_limits<float>::quiet_NaN();
  static std::vector<float> f(3);
  static std::vector<int32_t> i(8);
  static std::vector<uint32_t> words(8);
  const auto floats = [](std::initializer_list<float> values) {
    f = values;
    return View<const float>(f.data(), {static_cast<int64_t>(f.size())});
  };
  const auto ints = [](std::initializer_list<int32_t> values) {
    i = values;
    return View<const int32_t>(i.data(), {static_cast<int64_t>(i.size())});
  };
  static std::vector<int32_t> offsets, ids;
  const auto csr = [](std::initializer_list<int32_t> o, std::initializer_list<int32_t> id) {
    offsets = o;
    ids = id;
  };
  const auto offset_view = [] { return View<const int32_t>(offsets.data(), {static_cast<int64_t>(offsets.size())}); };
  const auto id_view = [] { return View<const int32_t>(ids.data(), {static_cast<int64_t>(ids.size())}); };
  const std::vector<Break> breaks = {
      {"temperature[1] is -1", [&](SamplingView& s) { s.temperature = floats({0, -1, 0}); }},
      {"temperature[2] is nan", [&](SamplingView& s) { s.temperature = floats({0, 1, nan}); }},
      {"temperature[0] is inf", [&](SamplingView& s) { s.temperature = floats({INFINITY, 1, 1}); }},
      {"temperature has rank", [&](SamplingView& s) { s.temperature = floats({0, 1}); }},
      {"top_k[0] is -1", [&](SamplingView& s) { s.top_k = ints({-1, 0, 0}); }},
      {"top_p[1] is 0", [&](SamplingView& s) { s.top_p = floats({1, 0, 1}); }},
      {"top_p[1] is 1.5", [&](SamplingView& s) { s.top_p = floats({1, 1.5f, 1}); }},
      {"min_p[2] is 1.5", [&](SamplingView& s) { s.min_p = floats({0, 0, 1.5f}); }},
      {"choice[0] is -1", [&](SamplingView& s) { s.choice = ints({-1, 0, 0}); }},
      {"repetition_penalty[0] is 0", [&](SamplingView& s) { s.repetition_penalty = floats({0, 1, 1}); }},
      {"presence_penalty[0] is nan", [&](SamplingView& s) { s.presence_penalty = floats({nan, 1, 1}); }},
      {"frequency_penalty[0] is inf", [&](SamplingView& s) { s.frequency_penalty = floats({INFINITY, 1, 1}); }},
      {"logprobs_k[0] is 21", [&](SamplingView& s) { s.logprobs_k = ints({21, 0, 0}); }},
      {"logprobs_k[0] is -2", [&](SamplingView& s) { s.logprobs_k = ints({-2, 0, 0}); }},
      {"bias_offsets is missing", [&](SamplingView& s) { s.bias_ids = ints({1}); }},
      {"bias_offsets[0] is 1",
       [&](SamplingView& s) {
         csr({1, 1, 1, 1}, {4});
         s.bias_offsets = offset_view();
         s.bias_ids = id_view();
         s.bias_values = floats({1});
       }},
      {"bias_offsets[2] is 0",
       [&](SamplingView& s) {
         csr({0, 1, 0, 1}, {4});
         s.bias_offsets = offset_view();
         s.bias_ids = id_view();
         s.bias_values = floats({1});
       }},
      {"bias_offsets[3] is 2",
       [&](SamplingView& s) {
         csr({0, 0, 0, 2}, {4});
         s.bias_offsets = offset_view();
         s.bias_ids = id_view();
         s.bias_values = floats({1});
       }},
      {"bias_ids[1] is 4",
       [&](SamplingView& s) {
         csr({0, 2, 2, 2}, {4, 4});
         s.bias_offsets = offset_view();
         s.bias_ids = id_view();
         s.bias_values = floats({1, 1});
       }},
      {"bias_ids[0] is 100",
       [&](SamplingView& s) {
         csr({0, 1, 1, 1}, {100});
         s.bias_offsets = offset_view();
         s.bias_ids = id_view();
         s.bias_values = floats({1});
       }},
      {"bias_values[0] is nan",
       [&](SamplingView& s) {
         csr({0, 1, 1, 1}, {4});
         s.bias_offsets = offset_view();
         s.bias_ids = id_view();
         s.bias_values = floats({nan});
       }},
      {"bias_values",
       [&](SamplingView& s) {
         csr({0, 1, 1, 1}, {4});
         s.bias_offsets = offset_view();
         s.bias_ids = id_view();
         s.bias_values = floats({1, 2});
       }},
      {"count_offsets is missing", [&](SamplingView& s) { s.count_ids = ints({1}); }},
      {"count_outputs[0] is -1",
       [&](SamplingView& s) {
         csr({0, 1, 1, 1}, {4});
         s.count_offsets = offset_view();
         s.count_ids = id_view();
         s.count_outputs = ints({-1});
       }},
      {"count_ids[0] is -1",
       [&](SamplingView& s) {
         csr({0, 1, 1, 1}, {-1});
         s.count_offsets = offset_view();
         s.count_ids = id_view();
         s.count_outputs = ints({1});
       }},
      {"mask_index[0] is 0", [&](SamplingView& s) { s.mask_index = ints({0, -1, -1}); }},
      {"masks[0] allows no id",
       [&](SamplingView& s) {
         s.mask_index = ints({0, -1, -1});
         words = {0, 0, 0, 0xfffffff0u};
         s.masks = {words.data(), {1, 4}};
       }},
      {"masks has rank 2 and 3 columns",
       [&](SamplingView& s) {
         words = {1, 1, 1};
         s.masks = {words.data(), {1, 3}};
       }},
  };
  for (const Break& one : breaks) {
    Fixture fixture;
    one.apply(fixture.staged.args.sampling);
    expect_refused(fixture, {one.name});
  }
}

TEST(ValidateStep, AcceptsSamplingAtItsLimits) {
  Fixture fixture;
  const std::vector<float> top_p = {1e-9f, 1, 0.5f}, bias = {-100, 100};
  const std::vector<int32_t> top_k = {0, 1, 2147483647}, offsets = {0, 1, 1, 2}, ids = {99, 0}, index = {0, -1, 0};
  const std::vector<uint32_t> masks = {0, 0, 0, 8};  // id 99 only
  SamplingView& sampling = fixture.staged.args.sampling;
  sampling.top_p = {top_p.data(), {3}};
  sampling.top_k = {top_k.data(), {3}};
  sampling.bias_offsets = {offsets.data(), {4}};
  sampling.bias_ids = {ids.data(), {2}};
  sampling.bias_values = {bias.data(), {2}};
  sampling.mask_index = {index.data(), {3}};
  sampling.masks = {masks.data(), {1, 4}};
  EXPECT_TRUE(fixture.check().ok()) << fixture.check().to_string();
}

}  // namespace
}  // namespace lockstep::step
