// SPDX-License-Identifier: Apache-2.0
// Numbers as Python reads, computes and prints them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "chat/jinja/value.h"

namespace lockstep::chat::jinja {

std::string int_to_string(Int value);
/// `base` 2..36, lower-case digits, no prefix.
std::string int_to_base(Int value, int base);
/// repr(float): the shortest digits that read back to the same value.
std::string float_repr(double value);
/// printf's conversions e, f, g (either case) with `precision` digits; "nan" and "inf" as Python writes them.
std::string float_format(double value, char conversion, int precision);

/// Truncates. False for NaN, infinities and what 128 bits can't hold.
bool double_to_int(double value, Int& out);

/// int(text, base) and float(text); absent where Python raises ValueError. An integer past 128 bits is an error.
std::optional<Int> parse_int(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);

// Operators: + - * / // % ** on numbers. Errors: division by zero, overflow.
Value add_numbers(const Value& a, const Value& b);
Value subtract_numbers(const Value& a, const Value& b);
Value multiply_numbers(const Value& a, const Value& b);
Value divide_numbers(const Value& a, const Value& b);
Value floor_divide_numbers(const Value& a, const Value& b);
Value modulo_numbers(const Value& a, const Value& b);
Value power_numbers(const Value& a, const Value& b);
Value negate_number(const Value& a);
/// round(a, digits): half to even, on the exact decimal value for floats.
Value round_number(const Value& a, Int digits);

}  // namespace lockstep::chat::jinja
