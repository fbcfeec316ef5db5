// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <cmath>
#include <limits>
#include <sstream>

#include "cli/json_lines.h"
#include "cli/prompts.h"

namespace lockstep::cli {
namespace {

using nlohmann::ordered_json;

TEST(Prompts, KeepCommandLineOrderAcrossOptions) {
  CLI::App app;
  std::vector<Prompt> prompts;
  add_prompt_options(app, prompts, {PromptKind::kText, PromptKind::kIds, PromptKind::kChat});
  app.parse(R"(--chat "b c" --prompt-ids 1,2 --prompt -x --prompt "[q, r]" --chat=--help)");
  ASSERT_EQ(prompts.size(), 5u);
  EXPECT_EQ(prompts[0].kind, PromptKind::kChat);
  EXPECT_EQ(prompts[0].value, "b c");
  EXPECT_EQ(prompts[1].kind, PromptKind::kIds);
  EXPECT_EQ(prompts[2].value, "-x");
  EXPECT_EQ(prompts[3].value, "[q, r]");
  EXPECT_EQ(prompts[4].value, "--help");
}

TEST(Prompts, IdsAreCheckedAndNamed) {
  EXPECT_EQ(*parse_prompt_ids("1, 2 ,30"), (std::vector<int32_t>{1, 2, 30}));
  for (const char* bad : {"", "1,", ",1", "1,x", "-1", "2147483648", "1 2", "1.5"}) {
    const auto ids = parse_prompt_ids(bad);
    ASSERT_FALSE(ids) << bad;
    EXPECT_NE(ids.error().message().find("--prompt-ids: item"), std::string::npos);
  }
}

TEST(Prompts, MissingFileIsNamed) {
  const auto text = read_text_file("/nonexistent/file");
  ASSERT_FALSE(text);
  EXPECT_NE(text.error().message().find("/nonexistent/file"), std::string::npos);
}

TEST(JsonLines, BadLinesGetAnErrorAndTheStreamGoesOn) {
  std::istringstream in("{\"a\":1}\n\nnot json\n[1]\n{\"b\":2}\n");
  std::ostringstream out;
  answer_json_lines(in, out, [](const ordered_json& line) -> Expected<ordered_json> {
    if (!line.contains("a")) return invalid_argument("a is missing");
    return ordered_json{{"got", line["a"]}};
  });
  EXPECT_EQ(out.str(),
            "{\"got\":1}\n{\"error\":\"the line is not valid JSON\"}\n{\"error\":\"the line is a JSON array, not an "
            "object\"}\n"
            "{\"error\":\"a is missing\"}\n");
}

TEST(JsonLines, FloatsRoundTrip) {
  for (const float value : {0.1f, -7.25612f, 1e-38f, std::nextafter(1.0f, 2.0f), -0.0f, 3.4e38f}) {
    const std::string text = dump(json_number(value));
    EXPECT_EQ(std::bit_cast<uint32_t>(static_cast<float>(ordered_json::parse(text).get<double>())),
              std::bit_cast<uint32_t>(value))
        << text;
  }
  EXPECT_EQ(dump(json_number(-0.1f)), "-0.1");
  EXPECT_TRUE(json_number(std::numeric_limits<float>::quiet_NaN()).is_null());
}

TEST(JsonLines, FieldsAreCheckedByName) {
  const ordered_json object{{"x", 1}, {"flag", nullptr}};
  EXPECT_TRUE(*bool_field(object, "flag", true));
  EXPECT_FALSE(*bool_field(object, "absent", false));
  EXPECT_EQ(bool_field(object, "x", false).error().message(), "x is a number, not a boolean");
  EXPECT_EQ(refuse_unknown_fields(object, {"x"}).message(), "unknown field flag");
}

TEST(JsonLines, LinesAreAscii) {
  EXPECT_EQ(dump("a\xff"), "\"a\\ufffd\"");
  EXPECT_EQ(dump("\xe2\x80\xa8"), "\"\\u2028\"");
}

}  // namespace
}  // namespace lockstep::cli
