// SPDX-License-Identifier: Apache-2.0
// Mutated templates must give a text or an error: never a crash, never a hang. Seeded; the full fuzzers are elsewhere.
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "chat/jinja/test_cases.h"

namespace lockstep::chat::jinja {
namespace {

using Json = nlohmann::ordered_json;

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}

  size_t below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  std::string mutate(std::string text, const std::vector<std::string>& others) {
    static const std::vector<std::string> kPieces = {"{{",
                                                     "}}",
                                                     "{%",
                                                     "%}",
                                                     "{#",
                                                     "#}",
                                                     "-",
                                                     "|",
                                                     "(",
                                                     ")",
                                                     "[",
                                                     "]",
                                                     "{",
                                                     "}",
                                                     "~",
                                                     "**",
                                                     "//",
                                                     "%",
                                                     "'",
                                                     "\"",
                                                     "\\",
                                                     ".",
                                                     ",",
                                                     " if ",
                                                     " else ",
                                                     " is ",
                                                     " not ",
                                                     " in ",
                                                     "loop",
                                                     "messages",
                                                     "[::-1]",
                                                     "|tojson",
                                                     "|list",
                                                     "|map('upper')",
                                                     "|sort",
                                                     "|groupby('role')",
                                                     "|int",
                                                     "|join",
                                                     "namespace()",
                                                     "range(9)",
                                                     "caller()",
                                                     "{% endfor %}",
                                                     "{% for x in messages %}",
                                                     "{% set x = x ~ x %}",
                                                     "{% macro m(a) %}",
                                                     "{% endmacro %}",
                                                     "{% break %}",
                                                     "\n",
                                                     "\xff",
                                                     "\xe4\xbd",
                                                     "9999999999999999999"};
    for (size_t count = 1 + below(4); count > 0; --count) {
      const size_t at = below(text.size() + 1);
      switch (below(5)) {
        case 0:
          text.erase(at, below(12));
          break;
        case 1:
          text.insert(at, kPieces[below(kPieces.size())]);
          break;
        case 2:
          text.insert(at, text.substr(below(text.size() + 1), below(40)));
          break;
        case 3:
          if (at < text.size()) text[at] = static_cast<char>(below(256));
          break;
        default: {
          const std::string& other = others[below(others.size())];
          text = text.substr(0, at) + other.substr(below(other.size() + 1), below(80)) +
                 text.substr(std::min(text.size(), at + below(20)));
        }
      }
    }
    return text;
  }

 private:
  std::mt19937 random_;
};

TEST(JinjaMutations, NeverCrash) {
  std::vector<std::string> seeds;
  for (const auto& test : read_test_lines("/tests/data/golden/jinja/cases.jsonl")) seeds.push_back(test["template"]);
  for (const auto& test : read_test_lines("/tests/data/jinja_idioms/semantics.jsonl"))
    seeds.push_back(test["template"]);
  for (const auto* name : {"hermes", "llama3", "harmony", "command", "mistral"}) {
    seeds.push_back(read_test_file(std::string("/tests/data/jinja_idioms/") + name + ".jinja"));
  }
  const Json inputs = Json::parse(read_test_file("/tests/data/jinja_idioms/inputs.json"));
  std::vector<Variable> variables = {{"messages", inputs["chats"]["two calls"], true},
                                     {"tools", inputs["extras"][2]["tools"], true}};
  for (const auto& [name, value] : inputs["values"].items()) variables.push_back({name, value, true});

  Limits limits;
  limits.max_steps = 20'000;
  limits.max_total_bytes = 4 << 20;
  limits.max_value_bytes = 1 << 20;
  Mutator mutator(20250726);
  size_t parsed_count = 0;
  size_t rendered_count = 0;
  const std::clock_t end = std::clock() + CLOCKS_PER_SEC;
  size_t round = 0;
  for (; round < 200'000 && std::clock() < end; ++round) {
    const auto parsed = Template::parse(mutator.mutate(seeds[mutator.below(seeds.size())], seeds), limits);
    if (!parsed) {
      ASSERT_FALSE(parsed.error().message().empty());
      continue;
    }
    ++parsed_count;
    const auto rendered = parsed->render(variables, golden_time());
    if (!rendered) continue;
    ++rendered_count;
    int64_t last = -1;
    for (const auto& range : rendered->literal) {
      ASSERT_LT(last, range.begin);
      ASSERT_LT(range.begin, range.end);
      last = range.end;
    }
    ASSERT_LE(last, static_cast<int64_t>(rendered->text.size()));
  }
  EXPECT_GT(round, 100u);
  EXPECT_GT(parsed_count, 20u);
  EXPECT_GT(rendered_count, 10u);
}

}  // namespace
}  // namespace lockstep::chat::jinja
