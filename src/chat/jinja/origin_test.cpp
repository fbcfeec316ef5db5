// SPDX-License-Identifier: Apache-2.0
// Each byte of a request keeps its origin, whatever a template does with it.
#include <gtest/gtest.h>

#include "chat/jinja/template.h"

namespace lockstep::chat::jinja {
namespace {

using Json = nlohmann::ordered_json;

/// The output with request-born bytes in « ».
std::string marked(const std::string& source) {
  const Json request = {{"s", "User <b> 'q' é\n"}, {"w", " a b "}, {"l", {"x", "y"}}, {"d", {{"k", "v"}}}};
  std::vector<Variable> variables;
  for (const auto& [name, value] : request.items()) variables.push_back({name, value, /*request_born=*/true});
  variables.push_back({"t", "T", /*request_born=*/false});
  const auto parsed = Template::parse(source);
  if (!parsed) return parsed.error().message();
  const auto rendered = parsed->render(variables, ClockTime{});
  if (!rendered) return rendered.error().message();
  std::string text = rendered->text;
  int64_t last = -1;
  for (const auto& range : rendered->literal) {
    EXPECT_LT(last, range.begin);  // sorted, not touching
    EXPECT_LT(range.begin, range.end);
    last = range.end;
  }
  for (auto range = rendered->literal.rbegin(); range != rendered->literal.rend(); ++range) {
    text.insert(static_cast<size_t>(range->end), "»");
    text.insert(static_cast<size_t>(range->begin), "«");
  }
  return text;
}

TEST(Origin, PassesEveryWayOfTextWork) {
  const struct {
    const char* source;
    const char* expected;
  } cases[] = {
      {"a{{ w }}b{{ t }}{{ 5 }}", "a« a b »bT5"},
      {"{{ t + w + t ~ w }}", "T« a b »T« a b »"},
      {"{{ s[5:8] }}|{{ s[0] }}|{{ s[::-1][:3] }}|{{ s[13] }}", "«<b>»|«U»|«\né »|«é»"},
      {"{{ w.strip() }}|{{ w | trim }}|{{ w.lstrip() }}|{{ ('-' + w.strip() + '-').strip('-a') }}",
       "«a b»|«a b»|«a b »|« b»"},
      {"{{ w.split() }}|{{ s.split(' ')[1] }}|{{ 'x,y'.split(',')[0] }}", "['«a»', '«b»']|«<b>»|x"},
      {"{{ s.replace('User', 'Z')[:5] }}|{{ 'a-b'.replace('-', w) }}|{{ w.replace(' ', '') }}",
       "Z« <b>»|a« a b »b|«ab»"},
      {"{{ l | join(t) }}|{{ t.join(l) }}|{{ [t, t] | join(w) }}", "«x»T«y»|«x»T«y»|T« a b »T"},
      {"{{ d | tojson }}|{{ s | tojson }}|{{ d | tojson(indent=1) }}",
       "{\"«k»\": \"«v»\"}|\"«User <b> 'q' é\\n»\"|{\n \"«k»\": \"«v»\"\n}"},
      {"{{ s | tojson(ensure_ascii=true) }}", "\"«User <b> 'q' \\u00e9\\n»\""},
      {"{{ d }}|{{ l }}|{{ [s] }}", "{'«k»': '«v»'}|['«x»', '«y»']|[\"«User <b> 'q' é\\n»\"]"},
      {"{{ w | upper }}|{{ s.title()[:4] }}|{{ s | lower | length }}|{{ (s ~ t).swapcase()[12:] }}",
       "« A B »|«User»|15|« É\n»t"},
      {"{{ '%s-%5s-%d' | format(l[0], l[1], 3) }}|{{ '%(k)s' % d }}|{{ w % () }}", "«x»-    «y»-3|«v»|« a b »"},
      {"{{ '{}-{a:>4}-{b[k]}'.format(l[0], a=l[1], b=d) }}|{{ w.format() }}", "«x»-   «y»-«v»|« a b »"},
      {"{{ s | e }}", "«User &lt;b&gt; &#39;q&#39; é\n»"},
      {"{{ ('<' | e) + l[0] + s[5:6] }}", "&lt;«x&lt;»"},
      {"{{ l[0].center(5, '*') }}|{{ l[0].rjust(3, w[1]) }}|{{ l[0] | indent(2, true) }}", "**«x»**|«aax»|  «x»"},
      {"{{ l[0] * 3 }}|{{ w | truncate(2, true, '', 0) }}|{{ s | urlencode }}",
       "«xxx»|« a»|«User%20%3Cb%3E%20%27q%27%20%C3%A9%0A»"},
      {"{% set x %}<{{ w }}>{% endset %}{{ x }}{{ x | length }}", "<« a b »>7"},
      {"{% macro m(a) %}[{{ a }}{{ caller() }}]{% endmacro %}{% call m(l[0]) %}{{ l[1] }}{% endcall %}", "[«xy»]"},
      {"{% filter upper %}a{{ l[0] }}b{% endfilter %}", "A«X»B"},
      {"{% set ns = namespace(v=t) %}{% for i in l %}{% set ns.v = ns.v ~ i %}{% endfor %}{{ ns.v }}", "T«xy»"},
      {"{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}{% for c in w %}{{ c }}.{% endfor %}",
       "«k»=«v ».«a».« ».«b».« »."},
      {"{{ w.partition('a') | join('|') }}|{{ s.splitlines()[0][:4] }}|{{ l | map('upper') | join }}",
       "« »|«a»|« b »|«User»|«XY»"},
      {"{{ l | first }}{{ l | last }}{{ l | sort(reverse=true) | join }}{{ l | reverse | list | join }}{{ (l | "
       "groupby(0))[0][0] }}",
       "«xyyxyxx»"},
      {"{{ dict(**d) }}|{{ d.get('q', w) }}|{{ none or w }}|{{ w if t else '' }}",
       "{'«k»': '«v»'}|« a b »|« a b »|« a b »"},
      {"{{ s | int }}{{ s is string }}{{ s == 'x' }}", "0TrueFalse"},
      {"{{ strftime_now(w ~ '%Y') }}", "« a b 1970»"},
      {"{{ l[0].zfill(3) }}|{{ 'a\tb'.expandtabs(2) }}|{{ ('a\t' ~ l[0]).expandtabs(2) }}|{{ s.removeprefix('User "
       "')[:3] }}",
       "00«x»|a b|a «x»|«<b>»"},
      {"{{ d | xmlattr }}|{{ d | urlencode }}|{{ l | string }}|{{ s.casefold()[:4] }}",
       " «k»=\"«v»\"|«k»=«v»|['«x»', '«y»']|«user»"},
      {"{{ d | dictsort }}|{{ d | items | list }}|{{ l | batch(1) | list }}",
       "[('«k»', '«v»')]|[('«k»', '«v»')]|[['«x»'], ['«y»']]"},
  };
  for (const auto& test : cases) EXPECT_EQ(marked(test.source), test.expected) << test.source;
}

}  // namespace
}  // namespace lockstep::chat::jinja
