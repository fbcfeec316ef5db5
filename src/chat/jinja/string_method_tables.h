// SPDX-License-Identifier: Apache-2.0
// The methods of str by file.
#pragma once

#include <span>
#include <string_view>

#include "chat/jinja/string_methods.h"

namespace lockstep::chat::jinja {

struct StringMethodEntry {
  std::string_view name;
  StringMethod method;
};

std::span<const StringMethodEntry> search_methods();  // string_methods.cpp
std::span<const StringMethodEntry> style_methods();   // string_methods_style.cpp

}  // namespace lockstep::chat::jinja
