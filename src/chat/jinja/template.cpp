// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/template.h"

#include <charconv>
#include <new>

#include "chat/jinja/globals.h"
#include "chat/jinja/lexer.h"
#include "chat/jinja/parser.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"
#include "chat/json_bounds.h"

namespace lockstep::chat::jinja {

namespace {

Status to_status(const TemplateError& problem, int line) {
  return {problem.code, fmt::format("line {}: {}", problem.line > 0 ? problem.line : line, problem.message)};
}

/// Reads `count` digits and checks the bounds.
bool read_field(std::string_view text, size_t at, size_t count, int low, int high, int& out) {
  const char* begin = text.data() + at;
  const auto done = std::from_chars(begin, begin + count, out);
  return done.ec == std::errc() && done.ptr == begin + count && out >= low && out <= high;
}

}  // namespace

Expected<ClockTime> parse_clock_time(std::string_view text) {
  ClockTime time;
  const bool shaped = text.size() == 19 && text[4] == '-' && text[7] == '-' && (text[10] == 'T' || text[10] == ' ') &&
                      text[13] == ':' && text[16] == ':';
  if (!shaped || !read_field(text, 0, 4, 1, 9999, time.year) || !read_field(text, 5, 2, 1, 12, time.month) ||
      !read_field(text, 8, 2, 1, 31, time.day) || !read_field(text, 11, 2, 0, 23, time.hour) ||
      !read_field(text, 14, 2, 0, 59, time.minute) || !read_field(text, 17, 2, 0, 59, time.second)) {
    return invalid_argument("a time must look like 2025-07-26T14:05:09");
  }
  return time;
}

Expected<Template> Template::parse(std::string_view source, const Limits& limits) {
  if (source.size() > limits.max_source_bytes) {
    return error(StatusCode::kResourceExhausted, "line 1: the template has {} bytes, at most {}", source.size(),
                 limits.max_source_bytes);
  }
  try {
    return Template(Parser(tokenize(source), limits).parse(), limits);
  } catch (const TemplateError& problem) {
    return unexpected(to_status(problem, 1));
  } catch (const std::bad_alloc&) {
    return error(StatusCode::kResourceExhausted, "line 1: no memory for the template");
  }
}

Expected<Rendered> Template::render(const std::vector<Variable>& variables, std::optional<ClockTime> now) const {
  int line = 1;
  try {
    Runtime runtime(*root_, limits_, now);
    try {
      define_globals(runtime);
      for (const auto& variable : variables) {
        if (is_deeper_than(variable.value, kMaxJsonDepth))
          fail("'{}' is nested more than {} deep", variable.name, kMaxJsonDepth);
        runtime.define(variable.name, from_json(runtime.budget(), variable.value, variable.request_born));
      }
      runtime.execute(root_->body);
      Text text = runtime.finish();
      return Rendered{std::move(text.bytes), std::move(text.literal)};
    } catch (...) {
      line = runtime.line();
      throw;
    }
  } catch (const TemplateError& problem) {
    return unexpected(to_status(problem, line));
  } catch (const std::bad_alloc&) {
    return error(StatusCode::kResourceExhausted, "line {}: no memory to render the template", line);
  }
}

}  // namespace lockstep::chat::jinja
