// SPDX-License-Identifier: Apache-2.0
// object.name, object[index], object[a:b:c], with the sandbox's rules.
#pragma once

#include <string_view>

#include "chat/jinja/value.h"

namespace lockstep::chat::jinja {

/// The attribute, else the item of that name, else undefined.
Value get_attribute(Runtime& runtime, const Value& object, std::string_view name);
/// The item, else (for a string) the attribute of that name, else undefined.
Value get_item(Runtime& runtime, const Value& object, const Value& index);
/// Start, stop and step may be none.
Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step);
/// The attribute only; absent when there is none.
std::optional<Value> find_attribute(Runtime& runtime, const Value& object, std::string_view name);

}  // namespace lockstep::chat::jinja
