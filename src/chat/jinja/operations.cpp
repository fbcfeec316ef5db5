// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/operations.h"

#include <algorithm>

#include "chat/jinja/number.h"
#include "chat/jinja/string_methods.h"
#include "chat/jinja/unicode.h"

namespace lockstep::chat::jinja {

namespace {

std::string_view symbol(BinaryOperator op) {
  switch (op) {
    case BinaryOperator::kAdd:
      return "+";
    case BinaryOperator::kSubtract:
      return "-";
    case BinaryOperator::kMultiply:
      return "*";
    case BinaryOperator::kDivide:
      return "/";
    case BinaryOperator::kFloorDivide:
      return "//";
    case BinaryOperator::kModulo:
      return "%";
    case BinaryOperator::kPower:
      return "** or pow()";
  }
  return "?";
}

Value number_operation(BinaryOperator op, const Value& a, const Value& b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return add_numbers(a, b);
    case BinaryOperator::kSubtract:
      return subtract_numbers(a, b);
    case BinaryOperator::kMultiply:
      return multiply_numbers(a, b);
    case BinaryOperator::kDivide:
      return divide_numbers(a, b);
    case BinaryOperator::kFloorDivide:
      return floor_divide_numbers(a, b);
    case BinaryOperator::kModulo:
      return modulo_numbers(a, b);
    case BinaryOperator::kPower:
      return power_numbers(a, b);
  }
  return Value();
}

bool is_list_or_tuple(const Value& value) {
  return value.is_sequence() &&
         (value.sequence().type == SequenceType::kList || value.sequence().type == SequenceType::kTuple);
}

/// str + str. Text marked safe escapes the other side, as Markup does.
Value join_texts(Budget& budget, const Value& a, const Value& b) {
  TextBuilder builder(budget);
  const bool markup = a.text().markup || b.text().markup;
  const auto append = [&](const Text& text) {
    builder.append(markup && !text.markup ? escape_markup(budget, text) : text);
  };
  append(a.text());
  append(b.text());
  Text joined = builder.finish();
  joined.markup = markup;
  return Value(std::move(joined));
}

Value join_sequences(Budget& budget, const Value& a, const Value& b) {
  Values items = a.sequence().items;
  items.insert(items.end(), b.sequence().items.begin(), b.sequence().items.end());
  return make_sequence(budget, a.sequence().type, std::move(items));
}

size_t repeat_count(Budget& budget, const Value& count) {
  const Int times = std::max(Int{0}, count.as_int());
  if (times > static_cast<Int>(budget.limits().max_value_bytes)) fail_limit("a repetition makes too much");
  return static_cast<size_t>(times);
}

Value repeat(Budget& budget, const Value& value, const Value& count) {
  const size_t times = repeat_count(budget, count);
  if (value.is_string()) {
    TextBuilder builder(budget);
    if (!value.bytes().empty()) {
      budget.step(times);
      for (size_t i = 0; i < times; ++i) builder.append(value.text());
    }
    return Value(builder.finish());
  }
  Values items;
  const Values& source = value.sequence().items;
  if (!source.empty()) {
    for (size_t i = 0; i < times; ++i) {
      budget.step(source.size());
      items.insert(items.end(), source.begin(), source.end());
    }
  }
  return make_sequence(budget, value.sequence().type, std::move(items));
}

bool less_sequences(Budget& budget, const Values& a, const Values& b) {
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!equal(budget, a[i], b[i])) return less(budget, a[i], b[i]);
  }
  return a.size() < b.size();
}

bool less_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
  return a.to_double() < b.to_double();
}

bool orderable(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return true;
  if (a.is_string() && b.is_string()) return true;
  return is_list_or_tuple(a) && is_list_or_tuple(b) && a.sequence().type == b.sequence().type;
}

[[noreturn]] void fail_order(std::string_view op, const Value& a, const Value& b) {
  require_defined(a);
  require_defined(b);
  fail("'{}' not supported between instances of '{}' and '{}'", op, type_name(a), type_name(b));
}

bool not_a_number(const Value& value) { return value.kind() == Kind::kFloat && value.as_float() != value.as_float(); }

}  // namespace

void require_defined(const Value& value) {
  if (value.is_undefined()) fail("{}", value.undefined_message());
}

Values iterate(Budget& budget, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return {};
    case Kind::kString:
      return characters(budget, value.text());
    case Kind::kDict: {
      budget.step(value.dict().size());
      Values keys;
      keys.reserve(value.dict().size());
      for (const auto& entry : value.dict().entries()) keys.push_back(entry.first);
      return keys;
    }
    case Kind::kSequence: {
      Sequence& sequence = value.sequence();
      budget.step(sequence.items.size());
      if (sequence.type != SequenceType::kIterator) return sequence.items;
      Values rest(sequence.items.begin() + static_cast<std::ptrdiff_t>(sequence.next), sequence.items.end());
      sequence.next = sequence.items.size();
      return rest;
    }
    default:
      fail("'{}' object is not iterable", type_name(value));
  }
}

std::optional<size_t> length(Budget& budget, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      budget.bytes(value.bytes().size());
      return count_characters(value.bytes());
    case Kind::kDict:
      return value.dict().size();
    case Kind::kSequence:
      if (value.sequence().type == SequenceType::kIterator) return std::nullopt;
      return value.sequence().items.size();
    default:
      return std::nullopt;
  }
}

Value binary(Budget& budget, BinaryOperator op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return number_operation(op, a, b);
  if (op == BinaryOperator::kModulo && a.is_string()) return format_percent(budget, a.text(), b);
  require_defined(a);
  require_defined(b);
  if (op == BinaryOperator::kAdd) {
    if (a.is_string() && b.is_string()) return join_texts(budget, a, b);
    if (is_list_or_tuple(a) && is_list_or_tuple(b) && a.sequence().type == b.sequence().type) {
      return join_sequences(budget, a, b);
    }
    if (a.is_string()) fail("can only concatenate str (not \"{}\") to str", type_name(b));
  }
  if (op == BinaryOperator::kMultiply) {
    if ((a.is_string() || is_list_or_tuple(a)) && b.is_integral()) return repeat(budget, a, b);
    if ((b.is_string() || is_list_or_tuple(b)) && a.is_integral()) return repeat(budget, b, a);
  }
  fail("unsupported operand type(s) for {}: '{}' and '{}'", symbol(op), type_name(a), type_name(b));
}

bool less(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (!orderable(a, b)) fail_order("<", a, b);
  if (a.is_string()) return a.bytes() < b.bytes();  // UTF-8 sorts as its code points do
  if (a.is_sequence()) return less_sequences(budget, a.sequence().items, b.sequence().items);
  return less_numbers(a, b);
}

bool compare(Budget& budget, CompareOperator op, const Value& a, const Value& b) {
  const bool unordered = not_a_number(a) || not_a_number(b);
  const auto check = [&](std::string_view name) {
    if (!orderable(a, b)) fail_order(name, a, b);
  };
  switch (op) {
    case CompareOperator::kEqual:
      return equal(budget, a, b);
    case CompareOperator::kNotEqual:
      return !equal(budget, a, b);
    case CompareOperator::kLess:
      return less(budget, a, b);
    case CompareOperator::kGreater:
      check(">");
      return less(budget, b, a);
    case CompareOperator::kLessEqual:
      check("<=");
      return !unordered && !less(budget, b, a);
    case CompareOperator::kGreaterEqual:
      check(">=");
      return !unordered && !less(budget, a, b);
    case CompareOperator::kIn:
      return contains(budget, b, a);
    case CompareOperator::kNotIn:
      return !contains(budget, b, a);
  }
  return false;
}

bool contains(Budget& budget, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      fail("'in <string>' requires string as left operand, not {}", type_name(item));
    }
    budget.bytes(container.bytes().size());
    return container.bytes().find(item.bytes()) != std::string::npos;
  }
  if (container.is_dict()) return container.dict().find(item) != nullptr;
  if (!container.is_sequence() && !container.is_undefined()) {
    fail("argument of type '{}' is not iterable", type_name(container));
  }
  for (const auto& candidate : iterate(budget, container)) {
    if (equal(budget, candidate, item)) return true;
  }
  return false;
}

}  // namespace lockstep::chat::jinja
