// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/filters.h"

#include <algorithm>
#include <array>

#include "chat/jinja/filter_tables.h"

namespace lockstep::chat::jinja {

FilterFunction find_filter(std::string_view name) {
  for (const auto table : {text_filters(), value_filters(), sequence_filters(), selection_filters()}) {
    const auto found =
        std::find_if(table.begin(), table.end(), [name](const auto& entry) { return entry.name == name; });
    if (found != table.end()) return found->function;
  }
  return nullptr;
}

bool is_unsupported_filter(std::string_view name) {
  static constexpr std::array<std::string_view, 5> kNames = {"pprint", "random", "striptags", "urlize", "wordwrap"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace lockstep::chat::jinja
