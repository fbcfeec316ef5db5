// SPDX-License-Identifier: Apache-2.0
// Templates with the output of the real jinja2 3.1.6, as transformers sets it up.
#include <gtest/gtest.h>

#include "chat/jinja/test_cases.h"

namespace lockstep::chat::jinja {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Variable> variables_of(const Json& context) {
  std::vector<Variable> variables;
  for (const auto& [name, value] : context.items()) variables.push_back({name, value, /*request_born=*/true});
  return variables;
}

/// The case must give its output, or an error where jinja2 has one.
void check(const std::string& source, const Json& context, const Json& test) {
  const auto parsed = Template::parse(source);
  const Expected<Rendered> rendered =
      parsed ? parsed->render(variables_of(context), golden_time()) : Expected<Rendered>(unexpected(parsed.error()));
  if (test.contains("error")) {
    EXPECT_FALSE(rendered) << source << "\nshould fail with " << test["error"] << "\ngave " << rendered->text;
    if (!rendered) {
      EXPECT_EQ(rendered.error().message().substr(0, 5), "line ") << source;
    }
  } else if (!rendered) {
    ADD_FAILURE() << source << "\n" << rendered.error().to_string();
  } else {
    EXPECT_EQ(rendered->text, test["output"].get<std::string>()) << source << "\n" << test.dump();
  }
}

TEST(JinjaGolden, EveryCase) {
  const auto cases = read_test_lines("/tests/data/golden/jinja/cases.jsonl");
  ASSERT_EQ(cases.size(), 154u);
  for (const auto& test : cases) check(test["template"], test["context"], test);
}

TEST(JinjaGolden, DetailsOfTheLanguage) {
  const Json inputs = Json::parse(read_test_file("/tests/data/jinja_idioms/inputs.json"));
  const auto cases = read_test_lines("/tests/data/jinja_idioms/semantics.jsonl");
  ASSERT_GT(cases.size(), 200u);
  for (const auto& test : cases) check(test["template"], inputs["values"], test);
}

TEST(JinjaGolden, IdiomsOfPublishedTemplates) {
  const Json inputs = Json::parse(read_test_file("/tests/data/jinja_idioms/inputs.json"));
  const auto cases = read_test_lines("/tests/data/jinja_idioms/idioms.jsonl");
  ASSERT_EQ(cases.size(), 900u);
  for (const auto& test : cases) {
    Json context = {{"messages", inputs["chats"][test["chat"].get<std::string>()]},
                    {"tools", nullptr},
                    {"documents", nullptr},
                    {"add_generation_prompt", false},
                    {"bos_token", "<s>"},
                    {"eos_token", "</s>"}};
    context.update(inputs["extras"][test["extra"].get<size_t>()]);
    check(read_test_file("/tests/data/jinja_idioms/" + test["file"].get<std::string>()), context, test);
  }
}

}  // namespace
}  // namespace lockstep::chat::jinja
