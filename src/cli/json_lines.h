// SPDX-License-Identifier: Apache-2.0
// JSON lines in and out: one object a line, on standard input and output.
#pragma once

#include <functional>
#include <istream>
#include <ostream>

#include "base/status.h"
#include "nlohmann/json.hpp"

namespace lockstep::cli {

/// Reads lines until the end, skips empty ones, writes answer(object) as a line for each. A line that is no JSON
/// object, or for which `answer` fails, gives {"error": message}; the stream goes on.
void answer_json_lines(std::istream& in, std::ostream& out,
                       const std::function<Expected<nlohmann::ordered_json>(const nlohmann::ordered_json&)>& answer);

/// Field `name` of `object` as bool; `otherwise` if absent or null; an error naming the field for another type.
Expected<bool> bool_field(const nlohmann::ordered_json& object, const char* name, bool otherwise);
/// An error naming the first key of `object` that is not in `known`.
Status refuse_unknown_fields(const nlohmann::ordered_json& object, std::initializer_list<std::string_view> known);

/// The shortest decimal number that reads back to this float, as a double for JSON; NaN becomes null.
nlohmann::ordered_json json_number(float value);
/// One line of pure ASCII (U+2028 and its like would break lines for some readers). Never throws: invalid UTF-8 becomes
/// U+FFFD.
std::string dump(const nlohmann::ordered_json& value);

}  // namespace lockstep::cli
