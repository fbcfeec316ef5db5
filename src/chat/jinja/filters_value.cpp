// SPDX-License-Identifier: Apache-2.0
// Filters on single values: numbers, defaults, conversions, JSON.
#include <array>
#include <cmath>

#include "chat/jinja/access.h"
#include "chat/jinja/arguments.h"
#include "chat/jinja/filter_tables.h"
#include "chat/jinja/number.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"

namespace lockstep::chat::jinja {

namespace {

Value default_filter(Runtime&, const Value& target, const Args& args) {
  const Arguments given("default", args, {"default_value", "boolean"});
  const bool missing = target.is_undefined() || (given.truth(1, false) && !truthy(target));
  if (!missing) return target;
  return given.given(0) ? *given[0] : Value::string("");
}

Value abs_filter(Runtime&, const Value& target, const Args& args) {
  const Arguments given("abs", args, {});
  require_defined(target);
  if (!target.is_number()) fail("bad operand type for abs(): '{}'", type_name(target));
  if (target.kind() == Kind::kFloat) return Value(std::fabs(target.as_float()));
  return target.as_int() < 0 ? negate_number(target) : Value(target.as_int());
}

Value round_filter(Runtime&, const Value& target, const Args& args) {
  const Arguments given("round", args, {"precision", "method"});
  require_defined(target);
  if (!target.is_number()) fail("type {} doesn't define __round__ method", type_name(target));
  const Int precision = given.integer(0, 0);
  const std::string method = given.given(1) ? given.text(1).bytes : "common";
  if (method == "common") return round_number(target, precision);
  if (method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  const Value unit = power_numbers(Value(Int{10}), Value(precision));
  const double scaled = multiply_numbers(target, unit).to_double();
  const double rounded = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return divide_numbers(Value(rounded), unit);
}

Value int_filter(Runtime&, const Value& target, const Args& args) {
  const Arguments given("int", args, {"default", "base"});
  const Value otherwise = given.given(0) ? *given[0] : Value(Int{0});
  require_defined(target);
  if (target.is_integral()) return Value(target.as_int());
  Int whole = 0;
  if (target.kind() == Kind::kFloat) return double_to_int(target.as_float(), whole) ? Value(whole) : otherwise;
  if (!target.is_string()) return otherwise;
  const Int base = given.integer(1, 10);
  if (base >= 0 && base <= 36 && base != 1) {
    if (const auto parsed = parse_int(target.bytes(), static_cast<int>(base))) return Value(*parsed);
  }
  const auto number = parse_float(target.bytes());
  return number && double_to_int(*number, whole) ? Value(whole) : otherwise;
}

Value float_filter(Runtime&, const Value& target, const Args& args) {
  const Arguments given("float", args, {"default"});
  require_defined(target);
  if (target.is_number()) return Value(target.to_double());
  const auto number = target.is_string() ? parse_float(target.bytes()) : std::nullopt;
  if (number) return Value(*number);
  return given.given(0) ? *given[0] : Value(0.0);
}

Value string_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("string", args, {});
  return target.is_string() ? target : Value(to_text(runtime.budget(), target));
}

/// float(value)
double to_number(const Value& value) {
  require_defined(value);
  if (value.is_number()) return value.to_double();
  const auto number = value.is_string() ? parse_float(value.bytes()) : std::nullopt;
  if (!number) fail("could not convert a {} to a number", type_name(value));
  return *number;
}

Value filesizeformat_filter(Runtime&, const Value& target, const Args& args) {
  const Arguments given("filesizeformat", args, {"binary"});
  const double bytes = to_number(target);
  const bool binary_units = given.truth(0, false);
  const double base = binary_units ? 1024.0 : 1000.0;
  if (bytes == 1.0) return Value::string("1 Byte");
  if (bytes < base) return Value::string(fmt::format("{} Bytes", std::trunc(bytes)));
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  double unit = base;
  size_t index = 0;
  while (index + 1 < kPrefixes.size() && bytes >= unit * base) {
    unit *= base;
    ++index;
  }
  const char prefix = binary_units && index == 0 ? 'K' : kPrefixes[index];
  return Value::string(fmt::format("{:.1f} {}{}", bytes / unit, prefix, binary_units ? "iB" : "B"));
}

Value attr_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("attr", args, {"name"}, 1);
  const std::string& name = given.text(0).bytes;
  if (auto found = find_attribute(runtime, target, name)) return *std::move(found);
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", object_name(target), name));
}

JsonStyle json_style(Budget& budget, const Arguments& given) {
  JsonStyle style;
  style.ensure_ascii = given.truth(0, false);
  if (given.set(1)) {
    if (given[1]->is_string()) {
      style.indent = given[1]->bytes();
    } else {
      const Int width = given.integer(1, 0);
      if (width > 1000) fail_limit("tojson: indent is more than 1000");
      style.indent = std::string(width > 0 ? static_cast<size_t>(width) : 0, ' ');
    }
  }
  style.item_separator.bytes = style.indent ? "," : ", ";
  style.key_separator.bytes = ": ";
  if (given.set(2)) {
    const Values separators = iterate(budget, *given[2]);
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      fail("tojson: separators must be two strings");
    }
    style.item_separator = separators[0].text();
    style.key_separator = separators[1].text();
  }
  style.sort_keys = given.truth(3, false);
  return style;
}

Value tojson_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("tojson", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  TextBuilder builder(runtime.budget());
  append_json(builder, target, json_style(runtime.budget(), given));
  return Value(builder.finish());
}

constexpr std::array kFilters = {
    FilterEntry{"abs", abs_filter},
    FilterEntry{"attr", attr_filter},
    FilterEntry{"d", default_filter},
    FilterEntry{"default", default_filter},
    FilterEntry{"filesizeformat", filesizeformat_filter},
    FilterEntry{"float", float_filter},
    FilterEntry{"int", int_filter},
    FilterEntry{"round", round_filter},
    FilterEntry{"string", string_filter},
    FilterEntry{"tojson", tojson_filter},
};

}  // namespace

std::span<const FilterEntry> value_filters() { return kFilters; }

}  // namespace lockstep::chat::jinja
