// SPDX-License-Identifier: Apache-2.0
#include "text/output_stream.h"

#include <filesystem>

#include "gtest/gtest.h"

namespace lockstep::text {
namespace {

using request::Event;
using request::FinishReason;

std::shared_ptr<const tokenizer::Tokenizer> qwen3() {
  static const auto tokenizer =
      tokenizer::Tokenizer::load(std::filesystem::path(LOCKSTEP_TESTDATA_DIR) / "qwen3-tokenizer");
  EXPECT_TRUE(tokenizer) << tokenizer.error().to_string();
  return *tokenizer;
}

Event event(std::vector<int32_t> ids, FinishReason reason = FinishReason::kNone) {
  Event out;
  out.new_token_ids = std::move(ids);
  out.finish_reason = reason;
  return out;
}

struct Whole {
  std::string text;
  FinishReason reason = FinishReason::kNone;
  int64_t tokens = 0;
};

/// Feeds `ids` in events of `step` tokens; the last event carries `reason`.
Whole run(const std::vector<int32_t>& ids, FinishReason reason, size_t step, OutputOptions options = {}) {
  OutputStream stream(qwen3(), std::move(options));
  Whole whole;
  for (size_t at = 0; at < ids.size(); at += step) {
    const auto end = std::min(at + step, ids.size());
    const std::vector<int32_t> part(ids.begin() + static_cast<std::ptrdiff_t>(at),
                                    ids.begin() + static_cast<std::ptrdiff_t>(end));
    const OutputDelta delta = stream.append(event(part, end == ids.size() ? reason : FinishReason::kNone));
    whole.text += delta.text;
    if (delta.finish_reason != FinishReason::kNone) whole.reason = delta.finish_reason;
  }
  whole.tokens = stream.num_tokens();
  return whole;
}

OutputOptions keep_special() {
  OutputOptions options;
  options.skip_special_tokens = false;
  return options;
}

OutputOptions keep_stop(std::vector<std::string> stop) {
  OutputOptions options;
  options.stop = std::move(stop);
  options.include_stop_str_in_output = true;
  return options;
}

OutputOptions stop_at(std::vector<std::string> stop, int64_t min_tokens = 0) {
  OutputOptions options;
  options.stop = std::move(stop);
  options.min_tokens = min_tokens;
  return options;
}

TEST(OutputStream, SplitCharactersComeOutWhole) {  // case 6
  OutputStream stream(qwen3(), {});
  EXPECT_EQ(stream.append(event({145367})).text, "👨");
  EXPECT_EQ(stream.append(event({378})).text, "");
  EXPECT_EQ(stream.append(event({235})).text, "\u200D");
  EXPECT_EQ(stream.append(event({145233}, FinishReason::kLength)).text, "👩");
  for (size_t step = 1; step <= 4; ++step)
    EXPECT_EQ(run({145367, 378, 235, 145233}, FinishReason::kLength, step).text, "👨\u200D👩");
}

TEST(OutputStream, ACharacterCutByTheLimitBecomesOneReplacement) {  // case 7
  const Whole whole = run({11162}, FinishReason::kLength, 1);
  EXPECT_EQ(whole.text, " \uFFFD");
  EXPECT_EQ(whole.reason, FinishReason::kLength);
}

TEST(OutputStream, StopStringAcrossTokens) {  // case 13
  for (size_t step = 1; step <= 4; ++step) {
    const Whole stopped = run({370, 370, 370, 370}, FinishReason::kLength, step, stop_at({"bab"}));
    EXPECT_EQ(stopped.text, "a");
    EXPECT_EQ(stopped.reason, FinishReason::kStop);
    EXPECT_EQ(stopped.tokens, 2);
    const Whole ran_out = run({370, 370, 370, 370}, FinishReason::kLength, step, stop_at({"abc"}));
    EXPECT_EQ(ran_out.text, "abababab");
    EXPECT_EQ(ran_out.reason, FinishReason::kLength);
  }
}

TEST(OutputStream, StopStringInsideAToken) {  // case 14
  const Whole whole = run({13649, 13649, 13649}, FinishReason::kLength, 3, stop_at({"E"}));
  EXPECT_EQ(whole.text, "D");
  EXPECT_EQ(whole.reason, FinishReason::kStop);
  EXPECT_EQ(whole.tokens, 1);
  EXPECT_EQ(run({13649}, FinishReason::kLength, 1, keep_stop({"E"})).text, "DE");
}

TEST(OutputStream, EndTokensAreHidden) {  // cases 15, 23
  for (const auto& stop : {std::vector<std::string>{}, std::vector<std::string>{"<|im_end|>"}}) {
    const Whole whole = run({370, 370, 151645}, FinishReason::kStop, 1, stop_at(stop));
    EXPECT_EQ(whole.text, "abab");
    EXPECT_EQ(whole.reason, FinishReason::kStop);
    EXPECT_EQ(whole.tokens, 3);
  }
  EXPECT_EQ(run({370, 151645}, FinishReason::kStop, 2, keep_special()).text, "ab");
  // A stop token that is plain text is hidden too, unless asked for.
  EXPECT_EQ(run({370, 9707}, FinishReason::kStop, 1).text, "ab");
  EXPECT_EQ(run({370, 9707}, FinishReason::kStop, 1, keep_stop({})).text, "abHello");
  // ignore_eos: the run goes on, special tokens are skipped or shown as asked.
  EXPECT_EQ(run({151643, 151643}, FinishReason::kLength, 1).text, "");
  EXPECT_EQ(run({151643}, FinishReason::kLength, 1, keep_special()).text, "<|endoftext|>");
}

TEST(OutputStream, NonSpecialAddedTokensStay) {
  EXPECT_EQ(run({151667, 151668}, FinishReason::kLength, 1).text, "<think></think>");
}

TEST(OutputStream, MinTokensTextIsNotSearched) {
  const Whole whole = run({370, 370, 370}, FinishReason::kLength, 1, stop_at({"ab"}, 2));
  EXPECT_EQ(whole.text, "abab");
  EXPECT_EQ(whole.tokens, 3);
  EXPECT_EQ(whole.reason, FinishReason::kStop);
}

TEST(OutputStream, AStopStringMayNameTheReplacementOfACutCharacter) {
  EXPECT_EQ(run({11162}, FinishReason::kLength, 1, stop_at({"\uFFFD"})).reason, FinishReason::kStop);
}

TEST(OutputStream, OffsetsCountCharacters) {
  OutputStream stream(qwen3(), {});
  const OutputDelta delta = stream.append(event({145367, 378, 235, 9707}));
  ASSERT_EQ(delta.tokens.size(), 4u);
  EXPECT_EQ(delta.tokens[0].text_offset, 0);
  EXPECT_EQ(delta.tokens[1].text_offset, 1);
  EXPECT_EQ(delta.tokens[2].text_offset, 1);
  EXPECT_EQ(delta.tokens[3].text_offset, 2);
}

TEST(OutputStream, NothingComesAfterTheEnd) {
  OutputStream stream(qwen3(), stop_at({"E"}));
  EXPECT_EQ(stream.append(event({13649})).stop_string, "E");
  EXPECT_TRUE(stream.ended());
  const OutputDelta late = stream.append(event({13649}, FinishReason::kCancelled));
  EXPECT_EQ(late.text, "");
  EXPECT_TRUE(late.tokens.empty());
  EXPECT_EQ(late.finish_reason, FinishReason::kNone);
}

TEST(OutputStream, ErrorsArriveWithHeldText) {
  OutputStream stream(qwen3(), stop_at({"abc"}));
  EXPECT_EQ(stream.append(event({370})).text, "");
  Event failed = event({}, FinishReason::kError);
  failed.error = Status(StatusCode::kInternal, "non-finite logits");
  const OutputDelta delta = stream.append(failed);
  EXPECT_EQ(delta.text, "ab");
  EXPECT_EQ(delta.error.code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace lockstep::text
