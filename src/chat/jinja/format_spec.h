// SPDX-License-Identifier: Apache-2.0
// Python's format specifications: "*>+10,.2f".
#pragma once

#include <optional>
#include <string>

#include "chat/jinja/value.h"

namespace lockstep::chat::jinja {

struct FormatSpec {
  std::string fill = " ";  ///< one character
  char align = '\0';       ///< < > ^ =, or none given
  char sign = '-';         ///< - + or blank
  bool alternate = false;  ///< #
  Int width = 0;
  char grouping = '\0';  ///< , or _
  std::optional<int> precision;
  char type = '\0';
};

/// Errors: not a specification.
FormatSpec parse_format_spec(std::string_view spec);
/// format(value, spec). Errors: a type that doesn't fit the value.
Text format_value(Budget& budget, const Value& value, const FormatSpec& spec);
/// The first `count` characters.
Text truncate_characters(Budget& budget, const Text& text, size_t count);
/// `digits` (with its sign, if any) filled up to the width; `default_align` where the specification has none.
Text fill_to_width(Budget& budget, const Text& text, const FormatSpec& spec, char default_align);
/// An integer's digits with sign, prefix and grouping. `type`: b o x X d.
std::string format_integer(Int value, const FormatSpec& spec);
std::string format_float(double value, const FormatSpec& spec);

}  // namespace lockstep::chat::jinja
