// SPDX-License-Identifier: Apache-2.0
// The filters by file.
#pragma once

#include <span>
#include <string_view>

#include "chat/jinja/ast.h"

namespace lockstep::chat::jinja {

struct FilterEntry {
  std::string_view name;
  FilterFunction function;
};

std::span<const FilterEntry> text_filters();       // filters_text.cpp
std::span<const FilterEntry> value_filters();      // filters_value.cpp
std::span<const FilterEntry> sequence_filters();   // filters_sequence.cpp
std::span<const FilterEntry> selection_filters();  // filters_selection.cpp

/// jinja2's attribute paths: "a.b.0", or an integer; none = the item itself. Undefined along the way becomes
/// `otherwise`, if given.
Value attribute_path(Runtime& runtime, const Value& item, const Value& path, const Value* otherwise = nullptr);
/// A string without its case; other values as they are.
Value fold_case(Budget& budget, const Value& value);

}  // namespace lockstep::chat::jinja
