#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders tests/data/jinja_idioms with the real jinja2 (3.1.6), set up as transformers sets it up, and stores what comes out.

    python3 tests/tools/make_jinja_cases.py

inputs.json: "chats" (messages by name), "extras" (more variables), "values" (variables of the small templates).
idioms.jsonl: {"file", "chat", "extra", "output" | "error"} for the chat templates *.jinja there, which are our own, in the
idioms of published families; the context is messages, the extras, and tools none, documents none, add_generation_prompt false,
bos_token "<s>", eos_token "</s>". semantics.jsonl: {"template", "output" | "error"}: details of the language.
"""
import datetime, itertools, json, pathlib

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "jinja_idioms"
NOW = datetime.datetime(2025, 7, 26, 14, 5, 9)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


ENV = environment()


def render(source, context):
    try:
        return {"output": ENV.from_string(source).render(**context)}
    except Exception as e:  # whatever jinja2 or Python raises is the expected error
        return {"error": {"type": type(e).__name__, "message": str(e)[:200]}}


WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city.\nNow.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "City, e.g. Zürich"}, "unit": {
        "type": "string", "enum": ["c", "f"], "default": "c"}}, "required": ["city"]}}}
SEARCH = {"type": "function", "function": {"name": "search", "description": "Search \"<all>\" & 'sundry'", "return": {"type": "string"}, "parameters": {
    "type": "object", "properties": {
        "queries": {"type": "array", "items": {"type": "string"}}, "limit": {"type": "integer"},
        "deep": {"type": ["boolean", "null"]}, "filters": {"type": "object", "additionalProperties": {"type": "number"}},
        "range": {"type": "object", "properties": {"from": {"type": "string"}, "to": {"type": "number"}}, "required": ["to"]},
        "any": {"oneOf": [{"type": "string", "description": "text"}, {"type": "number"}]}}, "required": ["queries"], "$defs": {"x": [1, 2.0]}}}}
NOARGS = {"type": "function", "function": {"name": "now", "description": "Time.", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, id="a1b2c3d4e"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


U = {"role": "user", "content": "  Hi <b>you</b>, 你好 😀\n"}
A = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello."}
S = {"role": "system", "content": " Be brief. /no_think "}
CALLS = {"role": "assistant", "content": "", "tool_calls": [call("get_weather", {"city": "Köln", "days": 2, "f": 1.0})]}
TOOL = {"role": "tool", "content": "{\"t\": 12}", "tool_call_id": "a1b2c3d4e", "name": "get_weather"}
CHATS = {
    "one": [U], "system": [S, U], "turns": [U, A, {"role": "user", "content": "More"}], "system turns": [S, U, A, U, A],
    "ends assistant": [U, A], "tool": [U, CALLS, TOOL], "tool answered": [S, U, CALLS, TOOL, A, U],
    "two calls": [U, {**CALLS, "content": "wait", "tool_calls": [call("search", {"queries": ["a"]}), call("now", {}, "123456789")]},
                  TOOL, {**TOOL, "content": "noon"}, A],
    "two users": [U, U], "system only": [S], "bad id": [U, {**CALLS, "tool_calls": [call("now", {}, "x")]}, TOOL],
    "parts": [{"role": "user", "content": [{"type": "text", "text": " a "}, {"type": "image"}, {"type": "text", "text": "b"}]}],
    "no content": [U, {"role": "assistant", "tool_calls": [call("now", {})]}, TOOL],
    "thinking": [U, {"role": "assistant", "thinking": "t", "reasoning_content": "t", "tool_calls": [call("now", {})]}, TOOL],
    "developer": [{"role": "developer", "content": "Dev"}, U],
}
EXTRAS = [{}, {"add_generation_prompt": True}, {"add_generation_prompt": True, "tools": [WEATHER, SEARCH, NOARGS]},
          {"tools": [WEATHER], "tools_in_user_message": False, "builtin_tools": ["search", "code_interpreter", "now"], "enable_thinking": False},
          {"documents": [{"title": "first PART", "text": "D1", "children": [{"title": "sub", "text": "s"}, {"text": "t"}]}, {"title": "", "text": "D2"}],
           "controls": {"citations": True, "length": "short"}, "xml_tools": ["{'a': 1}", {"b": [True, None]}], "thinking": True,
           "reasoning_effort": "high", "add_generation_prompt": True}]


def idioms():
    for file in sorted(DATA.glob("*.jinja")):
        for (name, messages), (index, extra) in itertools.product(CHATS.items(), enumerate(EXTRAS)):
            context = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": False,
                       "bos_token": "<s>", "eos_token": "</s>", **extra}
            yield {"file": file.name, "chat": name, "extra": index, **render(file.read_text(encoding="utf-8"), context)}


VALUES = {"none": None, "t": True, "f": False, "i": 7, "neg": -7, "z": 0, "x": 2.5, "big": 123456789012345678, "s": "aBc", "e": "",
          "u": "Straße ǅ İ Σας ﬁ", "l": [3, 1, 2], "le": [], "d": {"b": 2, "a": [1], "C": None}, "de": {}, "n": [[1, "a"], {"k": 'q"\''}], "sp": " \t x\u00a0\u3000"}

SEMANTICS = r"""
{{ s.upper() }}{{ u.upper() }}|{{ u.lower() }}|{{ u.title() }}|{{ u.capitalize() }}|{{ u.swapcase() }}|{{ u.casefold() }}
{{ u|upper }}|{{ u|lower }}|{{ u|title }}|{{ u|capitalize }}|{{ u|length }}|{{ u[::-1] }}|{{ u[1:-1:2] }}
[{{ sp.strip() }}][{{ sp.rstrip() }}][{{ sp.lstrip() }}][{{ sp|trim }}]{{ sp.split() }}{{ sp.isspace() }}
{{ 'a b  c '.split(None, 1) }}{{ ' a b  c '.rsplit(None, 1) }}{{ 'a,b,c'.split(',', 0) }}{{ 'a,b,c'.rsplit(',', 5) }}
{{ 'a\r\nb\x0bc\x85d\n'.splitlines() }}{{ 'a\r\nb\n'.splitlines(true) }}{{ 'x'.join(l|map('string')) }}
{{ 'abcabc'.find('c', 3) }}{{ 'abcabc'.find('c', -2) }}{{ 'abc'.find('', 9) }}{{ 'abc'.rfind('') }}{{ 'äbc'.find('c') }}{{ 'abcabc'.count('b', 2) }}{{ 'aaa'.count('aa') }}{{ 'abc'.count('') }}
{{ 'abc'.startswith('b', 1) }}{{ 'abc'.endswith(('x', 'bc')) }}{{ 'abc'.endswith('b', 0, 2) }}{{ ''.startswith('') }}
{{ 'a.b.c'.partition('.') }}{{ 'a.b.c'.rpartition('.') }}{{ 'abc'.partition('x') }}{{ 'abc'.rpartition('x') }}
{{ 'x'.center(4) }}|{{ 'xy'.center(5) }}|{{ 'x'.rjust(3, '*') }}|{{ '-5'.zfill(4) }}|{{ 'a\tb'.expandtabs(4) }}|{{ 'xy'|center(7) }}|
{{ 'A1'.isalnum() }}{{ 'Ab'.isalpha() }}{{ '١'.isdigit() }}{{ '²'.isdigit() }}{{ '½'.isnumeric() }}{{ 'Ab'.istitle() }}{{ 'aB'.islower() }}{{ ''.isupper() }}{{ 'é'.isascii() }}{{ 'a_1'.isidentifier() }}{{ '1a'.isidentifier() }}{{ '\n'.isprintable() }}
{{ 'aaaa'.replace('a', 'b', 2) }}{{ 'abc'.replace('', '-', 2) }}{{ 'abc'.replace('b', '') }}{{ 'x' * 3 }}{{ 3 * 'ab' }}{{ 'x' * -1 }}
{{ 'abc'.removeprefix('ab') }}{{ 'abc'.removesuffix('bc') }}{{ 'abc'.removesuffix('') }}
{{ '%5.1f|%-6s|%06.2f|%x|%X|%o|%e|%g|%%|%c|%c' % (3.14159, 'ab', -2.5, 255, 255, 8, 12345.678, 0.0001, 'z', 65) }}
{{ '%(a)s-%(b)05d' % {'a': l, 'b': 42} }}|{{ '%r %s' % ('q', none) }}|{{ '%+d % d %d' % (5, 5, true) }}|{{ '%.3s|%5s|%-5s|' % ('abcdef', 'x', 'y') }}|{{ '%#x' % 255 }}|{{ '%*d' % (5, 3) }}
{{ '%d' % 'x' }}
{{ '%s %s' % 'x' }}
{{ '%s' % (1, 2) }}
{{ '{:>5}|{:<5}|{:^5}|{:*^7}|{:05d}|{:+}|{:,}|{:.2f}|{:e}|{:%}|{:x}|{:#b}|{!r}'.format('a', 'b', 'c', 'd', 42, 5, 1234567, 3.14159, 12345.0, 0.25, 255, 5, 'q') }}
{{ '{0[1]}{0[2]}|{d[b]}|{d.b}|{{}}|{1:{w}}|{d[C]!s:>6}|'.format(l, 'q', d=d, w=4) }}
{{ '{:>4}'.format(l) }}
{{ '{0.nope}|{0[9]}'.format(l) }}
{{ '{0'.format(1) }}
{{ '0}'.format(1) }}
{{ '{x}'.format(1) }}
{{ '{} {0}'.format(1) }}
{{ '{:.3}|{:10.3f}|{:g}|{}|{:_}|{:c}'.format('abcdef', 2.0, 1e10, 1e16, 1234567, 65) }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 2 ** 3 ** 2 }} {{ 2 ** 0.5 }} {{ -2 ** 2 }} {{ 1e3 }} {{ 1_0.5_0 }} {{ 0b101 }} {{ 0o17 }} {{ 0xFF }}
{{ 1 / 3 }} {{ 2 / 1 }} {{ 10 ** 20 }} {{ big * 10 }} {{ -big }} {{ 1e400 }} {{ -0.0 }} {{ 1e22 }} {{ 123456789.0 }} {{ 1e-7 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }}
{{ 1.0 // 0 }}
{{ 5 % 0 }}
{{ 0 ** -1 }}
{{ true + true }} {{ true * 3 }} {{ -true }} {{ +true }} {{ not 0 }} {{ 1 == true }} {{ 0 == false }} {{ none == false }} {{ 1 < 2.5 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1,) == (1,) }} {{ [1] == (1,) }} {{ {} == {} }} {{ {'a': 1} == {'a': 1.0} }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ [] < {} }}
{{ 1 in l }} {{ 'b' in d }} {{ 9 not in l }} {{ 'B' in s }} {{ '' in e }} {{ 1 in missing }} {{ 1 < 2 < 3 > 2 }} {{ 1 < 3 < 2 }} {{ 2 in [1] == false }}
{{ 1 in s }}
{{ 1 in 5 }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 7|round }} {{ 1234|round(-2) }} {{ 2.1|round(0, 'ceil') }} {{ 2.19|round(1, 'floor') }} {{ -2.5|round }} {{ 1e20|round }}
{{ '12'|int }} {{ ' 12 '|int }} {{ '1_000'|int }} {{ 'ff'|int(0, 16) }} {{ '0b11'|int(0, 2) }} {{ '12.9'|int }} {{ none|int }} {{ l|int(5) }} {{ true|int }} {{ '1e3'|int }} {{ ''|int(9) }} {{ 'inf'|int(3) }} {{ '010'|int }} {{ '0x1f'|int(0, 0) }}
{{ '1.5'|float }} {{ 'nan'|float }} {{ '-inf'|float }} {{ '1_0'|float }} {{ ''|float(2) }} {{ none|float }} {{ i|float }} {{ '.5'|float }} {{ '5.'|float }} {{ ' 1e2 '|float }}
{{ d|tojson }} {{ n|tojson }} {{ [1.0, 1e-7, none, true]|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ (1, 2)|tojson }} {{ de|tojson(indent=2) }} {{ d|tojson(indent=2, sort_keys=true) }} {{ n|tojson(indent='\t') }} {{ n|tojson(indent=0) }}
{{ u|tojson(ensure_ascii=true) }} {{ '\u2028</script>\x00\x1f\x7f'|tojson }} {{ d|tojson(separators=(',', ':')) }} {{ n|tojson(true, 1) }}
{{ missing|tojson }}
{{ range|tojson }}
{{ l|sort }}{{ l|sort(true) }}{{ ['b', 'A', 'a', 'B']|sort }}{{ ['b', 'A', 'a']|sort(case_sensitive=true) }}{{ d|dictsort }}{{ {'b': 1, 'A': 3, 'c': 2}|dictsort(by='value', reverse=true) }}
{{ [{'a': 2, 'b': 'x'}, {'a': 1, 'b': 'y'}, {'a': 2, 'b': 'a'}]|sort(attribute='a,b')|map(attribute='b')|join }}{{ [{'k': [5, 6]}, {'k': [4, 7]}]|sort(attribute='k.1')|tojson }}
{{ [1, 'a']|sort }}
{{ l|min }}{{ l|max }}{{ ['b', 'A']|max }}{{ []|max is defined }}{{ [{'a': 1}, {'a': 5}]|max(attribute='a') }}{{ l|sum }}{{ l|sum(start=10) }}{{ [[1], [2]]|sum(start=[]) }}
{{ ['a']|sum }}
{{ l|first }}{{ l|last }}{{ ''|first is defined }}{{ d|first }}{{ d|last }}{{ 'é!'|first }}{{ l|reverse|list }}{{ s|reverse }}{{ d|list }}
{{ l|batch(2)|list }}{{ l|batch(2, 0)|list }}{{ [1, 2, 3, 4, 5, 6, 7]|slice(3)|list }}{{ [1, 2, 3, 4, 5, 6, 7]|slice(3, 'x')|list }}
{{ [1, 1.0, true, 'A', 'a']|unique|list }}{{ [{'k': 1}, {'k': 1}, {'k': 2}]|unique(attribute='k')|list }}
{% for k, g in [{'a': 'x', 'n': 1}, {'a': 'Y', 'n': 2}, {'a': 'X', 'n': 3}]|groupby('a') %}{{ k }}:{{ g|map(attribute='n')|list }};{% endfor %}
{{ l|map('string')|join('-') }}{{ ['a', 'b']|map('replace', 'a', 'z')|list }}{{ l|select('odd')|list }}{{ l|select|list }}{{ [0, 1, none]|reject|list }}{{ [0, 1]|select('>', 0)|list }}
{{ l|map('nosuch')|list }}
{{ l|select('nosuch')|list }}

{{ [{'a': {'b': 1}}, {'a': {}}]|map(attribute='a.b')|list }}{{ [{'a': 1}, {}]|map(attribute='a', default=0)|list }}{{ [[1, 2]]|map(attribute=1)|list }}{{ [{'a': 1}, {'a': 0}, {}]|selectattr('a')|list }}{{ [{'a': 1}, {}]|rejectattr('a', 'undefined')|list }}
{{ 'a\nb\n\nc'|indent }}|{{ 'a\nb'|indent(2, true) }}|{{ 'a\n\nb'|indent(2, blank=true) }}|{{ 'a\nb'|indent('> ') }}|{{ ''|indent }}|
{{ 'hello world foo'|truncate(12) }}|{{ 'hello world foo'|truncate(11, true) }}|{{ 'hello world'|truncate(5, leeway=0) }}|{{ 'hello'|truncate(5) }}|{{ 'hello world foo bar'|truncate(9, false, '…', 0) }}
{{ 'hello wORLD (foo) [bar] <baz> {qux} a-b'|title }}|{{ "they're bill's"|title }}|{{ "they're bill's".title() }}
{{ "<a href='x'>&\"</a>"|e }}|{{ '<'|e|e }}|{{ '<'|safe|e }}|{{ '<'|forceescape }}|{{ ('<'|safe) + '<' }}|{{ '<' + ('>'|e) }}|{{ '<'|safe is escaped }}|{{ 1|e }}
{{ {'a': '<', 'b': none, 'c d': 1}|xmlattr is defined }}
{{ {'a': '<', 'b': none, 'c': 1}|xmlattr }}|{{ {'a': 1}|xmlattr(false) }}|{{ {}|xmlattr }}
{{ 'a b/c?d=é&'|urlencode }}|{{ {'a b': 'c/d', 'e': 1}|urlencode }}|{{ [('a', 1), ('b', '/')]|urlencode }}
{{ 1|filesizeformat }}|{{ 999|filesizeformat }}|{{ 1000|filesizeformat }}|{{ 1500000|filesizeformat }}|{{ 1024|filesizeformat(true) }}|{{ 5e9|filesizeformat }}
{{ 'a b-c d_e'|wordcount }} {{ -3|abs }} {{ -2.5|abs }} {{ true|abs }} {{ none|default('x') }} {{ missing|d }}| {{ missing|d('y') }} {{ 0|d(1, true) }} {{ 0|d(1, boolean=true) }}
{{ '%s-%s'|format(1, 'a') }} {{ '%(x)s'|format(x=5) }} {{ '%d%%'|format(3) }}
{{ l|length }}{{ missing|length }}{{ d.keys()|length }}{{ range(4)|length }}
{{ 5|length }}
{{ (l|map('string'))|length }}
{{ none }}{{ [none, true, 1.0, 'a"b', "a'b", 'a\'"b', '\t\\\x00é\u200b😀\U000e0001'] }}{{ {'k': (1,)} }}{{ () }}{{ (1, 2) }}{{ range(3) }}{{ range(1, 9, 3) }}{{ d.items() }}{{ d.keys() }}{{ d.values() }}
{{ d.get('b') }}{{ d.get('zz') }}{{ d.get('zz', 5) }}{{ d['b'] }}{{ d.b }}{{ d.items is defined }}{{ {'items': 1}.items is callable }}{{ {'items': 1}['items'] }}{{ d.copy() }}{{ d.zz is defined }}
{{ d.pop('b') }}
{{ d.update({}) }}
{{ l.append(1) }}
{{ l.sort() }}
{{ l.index(1) }}{{ l.count(3) }}{{ (1, 2, 1).count(1) }}{{ l.copy() }}
{{ l.index(99) }}
{{ l[0] }}{{ l[-1] }}{{ l.0 }}{{ l[5] is defined }}{{ l['x'] is defined }}{{ l[1:] }}{{ l[::-1] }}{{ l[-2:] }}{{ l[:99] }}{{ l[2:0:-1] }}{{ (1, 2, 3)[::2] }}{{ range(9)[2:8:3]|list }}{{ s[1] }}{{ s[-1] }}{{ s[9] is defined }}{{ s[::2] }}{{ s[5:] }}
{{ l[1.5] is defined }}{{ l[true] }}{{ l[none] is defined }}{{ d[l] is defined }}
{{ l[::0] }}
{{ d[1:] }}
{{ '' % l }}{{ 'a' % missing }}{{ le|truncate(3) }}{{ missing|last }}{{ range(2) in d }}
{{ none|filesizeformat }}
{{ 5[0] is defined }}{{ none.x is defined }}{{ (5).x is defined }}{{ 'a'.x is defined }}
{{ missing }}|{{ missing ~ 'x' }}|{{ [missing] }}|{{ missing|list }}|{{ missing is none }}|{{ missing == missing2 }}|{{ missing or 'd' }}|{{ not missing }}|{{ missing|string }}|{{ missing|join }}|{{ missing|upper }}|{% for x in missing %}{% else %}none{% endfor %}
{{ missing.x }}
{{ missing['x'] }}
{{ missing() }}
{{ missing + 1 }}
{{ -missing }}
{{ missing < 1 }}
{{ missing[1:] }}
{{ missing|int }}
{{ s.nope() }}
{{ s() }}
{{ none() }}
{{ d.b() }}
{{ s.upper(1) }}
{{ s.split(x=1) }}
{{ s|trim(1) }}
{{ s|replace('a') }}
{{ s.__class__ }}
{{ s.__class__.x }}
{{ ''.__class__.__mro__ }}
{{ range.__globals__ }}
{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}
{% set x = 1 %}{% with x = 2, y = x %}{{ x }}{{ y }}{% set x = 3 %}{{ x }}{% endwith %}{{ x }}
{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a * i %}{% endfor %}{{ ns.a }}{{ ns }}{{ ns.zz is defined }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns['b'] }}{% set ns.c, ns.d = 3, 4 %}{{ ns.c + ns.d }}
{% set x.y = 1 %}
{% set d.y = 1 %}
{% set (a, b), c = (1, 2), 3 %}{{ a }}{{ b }}{{ c }}{% set a = 1, 2 %}{{ a }}
{% for a, in [[1], [2]] %}{{ a }}{% endfor %}
{% set a, = [9] %}
{% set a, b = [1] %}
{% set a, b = 5 %}
{% set x %}a{% set y = 1 %}{{ s }}{% endset %}{{ x }}{{ y is defined }}{% set x | upper | replace('A', '-') %}ab{% endset %}{{ x }}
{% set true = 1 %}
{% for none in l %}{% endfor %}
{% if x is defined %}{% endif %}{% if z %}{% elif i > 5 %}big{% elif true %}x{% else %}y{% endif %}
{% for i in l if i > 1 %}{{ loop.index }}/{{ loop.length }}{{ loop.last }} {% else %}no{% endfor %}{% for i in l if i > 9 %}x{% else %}no{% endfor %}
{% for i in l %}{{ loop.previtem }}{{ loop.nextitem is defined }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }}{{ loop.depth }}{{ loop.depth0 }}|{% endfor %}
{% for a in l %}{% set outer = loop %}{% for b in l %}{{ outer.index }}{{ loop.index }}{% if loop.first %}{% continue %}{% endif %}{% if loop.index == 2 %}{% break %}{% endif %}{% endfor %};{% endfor %}{{ loop is defined }}
{% for x in [[1, [2, [3]]], [4]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}
{% for x in l %}{{ loop(x) }}{% endfor %}
{% for k in d %}{{ k }}{% endfor %}{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}{% for c in 'añ' %}[{{ c }}]{% endfor %}{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for i in 5 %}{% endfor %}
{% for a, b in l %}{% endfor %}
{% for i in none %}{% endfor %}
{% break %}
{% for i in l %}{% else %}{% break %}{% endfor %}
{% for i in l %}{% set loop_index = loop.index %}{{ loop_index }}{% endfor %}{{ loop_index is defined }}
{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, c=5) }}{{ m(*[1, 2]) }}{{ m(**{'a': 7, 'b': 8}) }}{{ m.name }}{{ m.arguments }}
{% macro m(a) %}{{ a is defined }}{{ varargs }}{{ kwargs }}{{ caller is defined }}{% endmacro %}{{ m() }}{{ m(1, 2, x=3) }}
{% macro m() %}{% endmacro %}{{ m(1) }}
{% macro m() %}{% endmacro %}{{ m(x=1) }}
{% macro m(a, a2=1, b) %}{% endmacro %}
{% macro m() %}[{{ caller(1, b=2) }}]{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{{ i }}{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{{ i }}{% set i = 9 %}{{ i }}{% endmacro %}{{ a() }}{{ i }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(20) }}
{% macro outer(x) %}{% macro inner() %}{{ x }}{% endmacro %}{{ inner() }}{% endmacro %}{{ outer(4) }}{{ inner is defined }}
{% call s() %}{% endcall %}
{% call i %}{% endcall %}
{% filter upper|replace('A', '4') %}abc{{ s }}{% endfilter %}{% filter indent(2) %}x
y{% endfilter %}
{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q is defined }}
{% block b %}{{ i }}{% set w = 1 %}{% endblock %}{{ w is defined }}
{% print i, s %}{% print %}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{% set j = joiner('|') %}{{ j() }}{{ j() }}{{ c.reset() }}{{ c.current }}
{{ dict(a=1, **{'b': 2}) }}{{ dict([('x', 1)]) }}{{ dict(d, b=9) }}{{ dict() }}
{{ range(5, 0, -2)|list }}{{ range(0)|list }}{{ range(3)[1] }}
{{ range(200000) }}
{{ range(1, 2, 0) }}
{{ 1 if t }}{{ 1 if f }}{{ (1 if f) is defined }}{{ 'a' if f else 'b' if f else 'c' }}{{ t and s }}{{ f or e or 'z' }}{{ none and x.y.z }}
{{ i is number }}{{ i is integer }}{{ x is float }}{{ t is integer }}{{ t is number }}{{ s is string }}{{ l is sequence }}{{ d is mapping }}{{ d is sequence }}{{ l is iterable }}{{ i is iterable }}{{ none is none }}{{ s is callable }}{{ s.upper is callable }}
{{ 3 is odd }}{{ 4 is even }}{{ 9 is divisibleby 3 }}{{ 9 is divisibleby(2) }}{{ 'a' is in 'abc' }}{{ 1 is in [1] }}{{ 2 is not in [1] }}{{ 'ab' is lower }}{{ 'AB' is upper }}{{ 5 is sameas 5 }}{{ none is sameas none }}{{ t is sameas true }}{{ 'upper' is filter }}{{ 'odd' is test }}{{ 'x' is filter }}
{{ 1 is gt 0 }}{{ 1 is lessthan 0 }}{{ 1 is ge(1) }}{{ 'a' is eq 'a' }}{{ 1 is ne 1 }}{{ 1 is true }}{{ t is true }}{{ f is false }}{{ t is boolean }}{{ not i is odd }}{{ i is not odd }}{{ i is defined and s is defined }}
{{ i is defined is true }}
{{ 'a' 'b' "c" }}{{ 'it''s' }}{{ "\x41\u00e9\U0001f600\101\q\n" }}{{ 'a\
b' }}
{{ '\ud83d\ude00' is string }}
{{ '\x4' }}
{{ 'abc }}
{{ "a' }}
{{ 1 + }}
{{ (1 }}
{{ [1, 2 }}
{{ {1 2} }}
{{ a b }}
{{ }}
{% %}
{% if %}{% endif %}
{% if t %}{% endfor %}
{% for %}{% endfor %}
{% for x in l %}
{% endif %}
{% set x 1 %}
{% macro 1() %}{% endmacro %}
{% raw %}x
{% raw %}
{#
{{
{%
{# open
{{ 1 ? 2 }}
{{ 1 ! 2 }}
{{ x.1a }}
{{ 007 }}
{{ f(1=2) }}
{{ f(a=1, 2) }}
{{ s|nosuch }}
{{ s is nosuch }}
{% nosuch %}
{% include 'x' %}
{{ [1, 2,] }}{{ (1,) }}{{ {'a': 1,} }}{{ s.replace('a', 'b',) }}{{ [[], [[]], {}] }}
{{ 'a' ~ 1 + 2 }}
{{ -1|abs }}{{ (-1)|abs }}{{ 2 - -1 }}{{ 1 - 1 }}{{ 1 ~ 2 * 3 }}{{ 10 - 2 ~ 3 }}
a  {{- ' b ' -}}  c {%- if t -%} d {%- endif -%} e {#- f -#} g
  {% if t %}
x
  {% endif %}
  {{ i }}
y {% if t %} z {% endif %}
{%+ if t %} a{% endif +%}
b
  {#- c #}
d {# e #}
f
    {% set a = 1 -%}
    g
{% raw -%}  {{ h }}  {%- endraw %} i {% raw %}
{% j %}{% endraw %}

k
{%- for x in l %}
 {{ x }}
{%- endfor -%}

l
{% for x in l -%}
  {{ x }}
{%+ endfor %}
{{ strftime_now('%d/%m/%y %-d %j %U %w %a %b %p %c %x %X %f|%z|%Z') }}|{{ strftime_now('') }}
{{ raise_exception('no ' ~ i) }}
{{ lipsum is defined }}{{ cycler is callable }}
{{ l|tojson|length }}{{ (s ~ u)|length }}{{ [s, u]|join(s)|length }}
{{ d.items()|list|first|last }}{{ d.items()[0] is defined }}{{ (d|items|list)[1][0] }}{{ d|items|first }}
{% set g = l|map('string') %}{{ g|join }}{{ g|join }}{{ g is iterable }}{{ 1 if g }}
{% set it = d|items %}{{ it|first }}{% for k, v in it %}{{ k }}{% endfor %}
""".strip("\n")


def semantic_templates():
    """Lines of SEMANTICS; a line that begins with a tag or text and leads on to others is joined by hand below."""
    multi = {"{{ 'a' 'b' \"c\" }}": 2, "{% filter upper": 2}
    lines = SEMANTICS.split("\n")
    at = 0
    while at < len(lines):
        if lines[at].startswith("a  {{- ' b '"):  # the part on white space is one template, up to strftime_now
            end = next(k for k in range(at, len(lines)) if lines[k].startswith("{{ strftime_now"))
            block = lines[at:end]
            for cut in range(1, len(block) + 1):  # and each of its beginnings, where they parse
                yield "\n".join(block[:cut])
            at = end
            continue
        count = next((n for start, n in multi.items() if lines[at].startswith(start)), 1)
        yield "\n".join(lines[at:at + count])
        at += count


def semantics():
    for template in semantic_templates():
        yield {"template": template, **render(template, VALUES)}


def write(name, cases):
    cases = list(cases)
    with open(DATA / name, "w", encoding="utf-8") as out:
        for case in cases:
            out.write(json.dumps(case) + "\n")
    print(name, len(cases), "cases,", sum("error" in c for c in cases), "errors")


if __name__ == "__main__":
    assert jinja2.__version__ == "3.1.6", jinja2.__version__
    (DATA / "inputs.json").write_text(json.dumps({"chats": CHATS, "extras": EXTRAS, "values": VALUES}, indent=1) + "\n")
    write("idioms.jsonl", idioms())
    write("semantics.jsonl", semantics())
