// SPDX-License-Identifier: Apache-2.0
// Templates with the output of the real jinja2, as transformers sets it up.
#include <gtest/gtest.h>

#include <fstream>

#include "chat/jinja/template.h"

namespace lockstep::chat::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Json> read_lines(const std::string& path) {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + path);
  std::vector<Json> cases;
  for (std::string line; std::getline(file, line);) cases.push_back(Json::parse(line));
  return cases;
}

/// Renders each case; it must give the output, or an error where jinja2 has one.
void check(const std::string& path, size_t expected_count) {
  const auto cases = read_lines(path);
  ASSERT_EQ(cases.size(), expected_count);
  const auto now = parse_clock_time("2025-07-26T14:05:09");
  ASSERT_TRUE(now);
  for (const auto& test : cases) {
    const std::string source = test["template"];
    std::vector<Variable> variables;
    for (const auto& [name, value] : test["context"].items()) variables.push_back({name, value, true});
    auto rendered =
        Template::parse(source).and_then([&](const Template& parsed) { return parsed.render(variables, *now); });
    if (test.contains("error")) {
      EXPECT_FALSE(rendered) << source << "\nshould fail: " << test["error"];
    } else if (!rendered) {
      ADD_FAILURE() << source << "\n" << rendered.error().to_string();
    } else {
      EXPECT_EQ(rendered->text, test["output"].get<std::string>()) << source;
    }
  }
}

TEST(JinjaGolden, EveryCase) { check("/tests/data/golden/jinja/cases.jsonl", 154); }

}  // namespace
}  // namespace lockstep::chat::jinja
