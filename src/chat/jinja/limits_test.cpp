// SPDX-License-Identifier: Apache-2.0
// Hostile templates end with an error: no hang, no overflow of the stack, no unbounded memory.
#include <gtest/gtest.h>

#include <ctime>

#include "chat/jinja/template.h"

namespace lockstep::chat::jinja {
namespace {

std::string repeated(const std::string& piece, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece;
  return text;
}

Expected<Rendered> render(const std::string& source) {
  const auto parsed = Template::parse(source);
  if (!parsed) return unexpected(parsed.error());
  return parsed->render({}, ClockTime{});
}

TEST(JinjaLimits, HostileTemplatesAreErrors) {
  const std::string many = "{% for a in range(99999) %}{% for b in range(99999) %}";
  const std::string cases[] = {
      many + "{% endfor %}{% endfor %}",
      many + "x{% endfor %}{% endfor %}",
      "{% set ns = namespace(x='abcdefgh') %}{% for i in range(99) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x }}",
      "{{ 'x' * 10 ** 12 }}",
      "{{ '' * 10 ** 30 ~ [0] * 10 ** 30 }}",
      "{{ [0] * 10 ** 12 }}",
      "{{ [0, 1] * 99999999 }}",
      "{{ 2 ** (10 ** 9) }}",
      "{{ 10 ** 40 }}",
      "{{ 99999999999999999999999999999999999999999999 }}",
      "{{ range(10 ** 9) }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '%.1000000000f' % 1 }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ '{:.1000000000f}'.format(1.0) }}",
      "{{ 'x'.ljust(10 ** 12) }}",
      "{{ 'x' | center(10 ** 30) }}",
      "{{ 'x' | indent(10 ** 12) }}",
      "{{ [1] | batch(10 ** 12, 0) | list }}",
      "{{ [1] | slice(10 ** 12) | list }}",
      "{{ [1] | tojson(indent=10 ** 9) }}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(x) %}{{ x() }}{% endmacro %}{% macro g() %}{{ f(g) }}{% endmacro %}{{ g() }}",
      "{% macro f() %}{% call f() %}{% endcall %}{{ caller }}{% endmacro %}{{ f() }}",
      "{% set l = [[1]] %}{% for x in l recursive %}{{ loop(l) }}{% endfor %}",
      "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
      "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns }}",
      "{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}",
      "{{ " + repeated("[", 100000),
      "{{ " + repeated("-", 100000) + "1 }}",
      "{{ " + repeated("not ", 100000) + "1 }}",
      "{{ 1" + repeated(" + 1", 100000) + " }}",
      "{{ 1" + repeated(" if 1 else 1", 100000) + " }}",
      "{{ x" + repeated(".x", 100000) + " }}",
      "{{ x" + repeated("[0]", 100000) + " }}",
      "{{ x" + repeated("|e", 100000) + " }}",
      "{{ x" + repeated("()", 100000) + " }}",
      "{{ x" + repeated(" is defined", 100000) + " }}",
      repeated("{% if 1 %}", 100000) + repeated("{% endif %}", 100000),
      repeated("{% for i in [1] %}", 5000),
      repeated("{% set x %}", 5000),
      "{% set " + repeated("(", 100000) + "a = 1 %}",
      std::string(5 << 20, 'x'),
  };
  for (const auto& source : cases) {
    const std::clock_t start = std::clock();  // of the processor: other work on the machine doesn't count
    EXPECT_FALSE(render(source)) << source.substr(0, 200);
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 20.0) << source.substr(0, 200);
  }
}

TEST(JinjaLimits, ReferencesInCirclesAndLongChainsAreFreed) {
  const std::string cases[] = {
      "{% set ns = namespace() %}{% set ns.x = ns %}ok",
      "{% set ns = namespace() %}{% macro m() %}{% endmacro %}{% set ns.m = m %}ok",
      "{% set ns = namespace(p=none) %}{% for i in range(20000) %}{% set n = namespace(p=ns.p) %}{% set ns.p = n %}{% "
      "endfor %}ok",
      "{% set ns = namespace(f=none) %}{% macro mk(p) %}{% macro inner() %}{% endmacro %}{% set ns.f = inner %}{% "
      "endmacro %}"
      "{% for i in range(20000) %}{{ mk(ns.f) }}{% endfor %}ok",
      "{% set ns = namespace(l=none) %}{% for i in range(200) %}{% for j in [ns.l] recursive %}{% set ns.l = loop %}{% "
      "endfor %}"
      "{% endfor %}ok",
      "{% for i in [1] %}{% set x = loop %}{% set y = x.cycle %}{% set z = [x, y] %}{% endfor %}ok",
      "{% set ns = namespace() %}{% macro m() %}{{ caller() }}{% endmacro %}"
      "{% for i in range(5000) %}{% call m() %}{% set ns.c = m %}{% endcall %}{% endfor %}ok",
  };
  for (const auto& source : cases) {
    const auto rendered = render(source);
    ASSERT_TRUE(rendered) << source << rendered.error().to_string();
    EXPECT_EQ(rendered->text, "ok") << source;
  }
}

TEST(JinjaLimits, OrdinaryWorkStaysWithinThem) {
  EXPECT_EQ(render("{% macro f(n) %}{{ f(n - 1) if n else 'end' }}{% endmacro %}{{ f(150) }}")->text, "end");
  EXPECT_EQ(render("{% for i in range(50000) %}{% if loop.last %}{{ i }}{% endif %}{% endfor %}")->text, "49999");
  EXPECT_EQ(render("{{ " + repeated("(", 60) + "1" + repeated(")", 60) + " }}")->text, "1");
  EXPECT_EQ(render("{{ 'a'" + repeated(" + 'b'", 200) + " }}")->text.size(), 201u);
  const std::string branches = "{% if 0 %}" + repeated("{% elif 0 %}", 3000) + "{% else %}ok{% endif %}";
  EXPECT_EQ(render(branches)->text, "ok");
}

TEST(JinjaLimits, AnErrorNamesItsLine) {
  const auto message = [](const std::string& source) {
    const auto rendered = render(source);
    return rendered ? rendered->text : rendered.error().message();
  };
  EXPECT_EQ(message("a\nb\n{{ x.y }}"), "line 3: 'x' is undefined");
  EXPECT_EQ(message("{% set a = 1 %}\n\n{{ 'x' +\n 1 }}"), "line 3: can only concatenate str (not \"int\") to str");
  EXPECT_EQ(message("{% macro m() %}\n{{ 1 / 0 }}\n{% endmacro %}\n\n{{ m() }}"), "line 2: division by zero");
  EXPECT_EQ(message("\n{# \n #}\n{% for %}"), "line 4: expected 'name', got 'end of statement block'");
}

TEST(ClockTime, IsReadFromText) {
  const auto time = parse_clock_time("2025-07-26T14:05:09");
  ASSERT_TRUE(time);
  EXPECT_EQ(time->year, 2025);
  EXPECT_EQ(time->month, 7);
  EXPECT_EQ(time->day, 26);
  EXPECT_EQ(time->hour, 14);
  EXPECT_EQ(time->minute, 5);
  EXPECT_EQ(time->second, 9);
  EXPECT_TRUE(parse_clock_time("2025-07-26 14:05:09"));
  for (const auto* wrong :
       {"", "2025-07-26", "2025-13-26T14:05:09", "2025-07-26T24:05:09", "2025-07-26T14:05:0x", "+025-07-26T14:05:09"}) {
    EXPECT_FALSE(parse_clock_time(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace lockstep::chat::jinja
