// SPDX-License-Identifier: Apache-2.0
// What Python's str can do, keeping each byte's origin.
#pragma once

#include <optional>
#include <string_view>

#include "chat/jinja/arguments.h"
#include "chat/jinja/unicode.h"
#include "chat/jinja/value.h"

namespace lockstep::chat::jinja {

using StringMethod = Value (*)(Runtime&, const Text& self, const Args& args);
/// Null when str has no such method, or none that makes sense here.
StringMethod find_string_method(std::string_view name);

/// One text per character.
Values characters(Budget& budget, const Text& text);
Text slice_bytes(Budget& budget, const Text& text, size_t begin, size_t end);
/// Without the characters of `set` at the ends; null: without white space.
Text strip(Budget& budget, const Text& text, const Text* set, bool left, bool right);
Text replace(Budget& budget, const Text& text, const Text& from, const Text& to, Int count);
Text change_case(Budget& budget, const Text& text, Case target);
Text capitalize(Budget& budget, const Text& text);
/// `count` < 0: no limit. Null separator: runs of white space.
Values split(Budget& budget, const Text& text, const Text* separator, Int count);
Values split_right(Budget& budget, const Text& text, const Text* separator, Int count);
Values split_lines(Budget& budget, const Text& text, bool keep_ends);
Text join(Budget& budget, const Text& separator, const Values& items, bool convert);
/// str.center(width) and its kin; `left` and `right`: the sides that are filled.
Text pad(Budget& budget, const Text& text, Int width, const Text& fill, bool left, bool right);
/// & < > " ' become character references. Marked-safe text is returned as it is.
Text escape_markup(Budget& budget, const Text& text);

/// text % values
Value format_percent(Budget& budget, const Text& format, const Value& values);
/// text.format(*args, **kwargs)
Text format_braces(Runtime& runtime, const Text& format, const Args& args);

}  // namespace lockstep::chat::jinja
