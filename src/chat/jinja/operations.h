// SPDX-License-Identifier: Apache-2.0
// Python's operators on values of any type.
#pragma once

#include <optional>

#include "chat/jinja/ast.h"
#include "chat/jinja/value.h"

namespace lockstep::chat::jinja {

/// list(value); an iterator is used up. Errors: not iterable.
Values iterate(Budget& budget, const Value& value);
/// Absent when the value has no len().
std::optional<size_t> length(Budget& budget, const Value& value);

Value binary(Budget& budget, BinaryOperator op, const Value& a, const Value& b);
bool compare(Budget& budget, CompareOperator op, const Value& a, const Value& b);
/// a < b; an error for what Python can't order.
bool less(Budget& budget, const Value& a, const Value& b);
bool contains(Budget& budget, const Value& container, const Value& item);

/// Fails with the undefined value's own message, if it is one.
void require_defined(const Value& value);

}  // namespace lockstep::chat::jinja
