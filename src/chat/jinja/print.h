// SPDX-License-Identifier: Apache-2.0
// str(), repr() and json.dumps() of values.
#pragma once

#include <optional>
#include <string_view>

#include "chat/jinja/value.h"
#include "nlohmann/json.hpp"

namespace lockstep::chat::jinja {

/// str(value)
void append_printed(TextBuilder& out, const Value& value);
Text to_text(Budget& budget, const Value& value);
/// repr(value)
void append_repr(TextBuilder& out, const Value& value);

struct JsonStyle {
  std::optional<std::string> indent;  ///< one level's white space; absent = everything on one line
  Text item_separator;
  Text key_separator;
  bool ensure_ascii = false;
  bool sort_keys = false;
};
/// json.dumps(value). Errors: a value that JSON has no form for.
void append_json(TextBuilder& out, const Value& value, const JsonStyle& style);

/// A value of the request or of the configuration; `literal`: its strings (and keys) are request-born.
Value from_json(Budget& budget, const nlohmann::ordered_json& json, bool literal);

}  // namespace lockstep::chat::jinja
