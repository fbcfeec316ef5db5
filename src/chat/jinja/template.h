// SPDX-License-Identifier: Apache-2.0
// A Jinja template: the part of jinja2 3.1.6 that a chat template can use, set up as transformers sets it up
// (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls, the `generation` block, tojson =
// json.dumps(ensure_ascii=False), raise_exception, strftime_now). Values print as Python prints them.
//
// Known differences: integers are limited to 128 bits (more is an error); `extends`, `include`, `import`, `autoescape`
// and the filters pprint, random, striptags, urlize, wordwrap are errors at parse; unknown filters and tests are errors
// at parse even in a branch that is never taken; map, select and their kin are evaluated at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "chat/rendered.h"
#include "nlohmann/json.hpp"

namespace lockstep::chat::jinja {

/// Bounds on what one template may cost, so that a hostile one is an error and not a hang, an overflow or a dead
/// machine.
struct Limits {
  size_t max_source_bytes = 4u << 20;  ///< template text
  int max_nesting = 200;               ///< blocks and brackets inside one another, while parsing
  int max_depth = 1200;                ///< evaluations inside one another: nodes of the tree, macros, recursive loops
  int64_t max_steps = 20'000'000;      ///< evaluated nodes, loop turns and list items in all
  int64_t max_value_bytes = 64 << 20;  ///< one string, the output included
  int64_t max_total_bytes = 1 << 30;   ///< all strings and lists made on the way
};

/// A local time, as strftime_now sees it. Fields as people write them: month 1..12, day 1..31.
struct ClockTime {
  int year = 1970;
  int month = 1;
  int day = 1;
  int hour = 0;
  int minute = 0;
  int second = 0;
};

/// Reads "2025-07-26T14:05:09" (or a blank for the T). Errors: kInvalidArgument.
Expected<ClockTime> parse_clock_time(std::string_view text);

/// A variable given to a template. With `request_born`, every string in it (object keys too) is literal text.
struct Variable {
  std::string name;
  nlohmann::ordered_json value;
  bool request_born = false;
};

struct TemplateNode;  // the syntax tree

/// A parsed template. Immutable and thread-safe: any number of threads may render it at once. Cheap to copy.
class Template {
 public:
  /// Errors: kInvalidArgument, the message starts with "line N: ".
  static Expected<Template> parse(std::string_view source, const Limits& limits = {});

  /// Later variables win over earlier ones of the same name. `now`: the clock; absent = the machine's local time.
  /// Errors: kInvalidArgument ("line N: why", also for raise_exception) or kResourceExhausted (a limit was reached).
  Expected<Rendered> render(const std::vector<Variable>& variables, std::optional<ClockTime> now = std::nullopt) const;

 private:
  explicit Template(std::shared_ptr<const TemplateNode> root, const Limits& limits)
      : root_(std::move(root)), limits_(limits) {}

  std::shared_ptr<const TemplateNode> root_;
  Limits limits_;
};

}  // namespace lockstep::chat::jinja
