// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/predicates.h"

#include <algorithm>
#include <array>

#include "chat/jinja/arguments.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/number.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/string_methods.h"

namespace lockstep::chat::jinja {

namespace {

template <bool (*kCheck)(const Value&)>
bool simple_test(Runtime&, const Value& target, const Args& args) {
  const Arguments given("test", args, {});
  return kCheck(target);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is_none(); }
bool is_boolean(const Value& value) { return value.is_bool(); }
bool is_true(const Value& value) { return value.is_bool() && value.as_bool(); }
bool is_false(const Value& value) { return value.is_bool() && !value.as_bool(); }
bool is_integer(const Value& value) { return value.kind() == Kind::kInt; }
bool is_float(const Value& value) { return value.kind() == Kind::kFloat; }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is_string(); }
bool is_mapping(const Value& value) { return value.is_dict(); }
bool is_escaped(const Value& value) { return value.is_string() && value.text().markup; }
/// Undefined has __call__, though it fails.
bool is_callable(const Value& value) {
  return value.is_undefined() || (value.is_object() && value.object()->callable());
}
bool is_iterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_sequence() || value.is_dict();
}
bool is_sequence(const Value& value) {
  if (value.is_string() || value.is_dict() || value.is_undefined()) return true;
  if (!value.is_sequence()) return false;
  const SequenceType type = value.sequence().type;
  return type == SequenceType::kList || type == SequenceType::kTuple || type == SequenceType::kRange;
}

Value remainder(Runtime& runtime, const Value& value, const Value& divisor) {
  return binary(runtime.budget(), BinaryOperator::kModulo, value, divisor);
}
bool odd_test(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("odd", args, {});
  return equal(runtime.budget(), remainder(runtime, target, Value(Int{2})), Value(Int{1}));
}
bool even_test(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("even", args, {});
  return equal(runtime.budget(), remainder(runtime, target, Value(Int{2})), Value(Int{0}));
}
bool divisibleby_test(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("divisibleby", args, {"num"}, 1);
  return equal(runtime.budget(), remainder(runtime, target, *given[0]), Value(Int{0}));
}

bool case_test(Runtime& runtime, const Value& target, const char* method) {
  const Text text = to_text(runtime.budget(), target);
  return find_string_method(method)(runtime, text, {}).as_bool();
}
bool lower_test(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("lower", args, {});
  return case_test(runtime, target, "islower");
}
bool upper_test(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("upper", args, {});
  return case_test(runtime, target, "isupper");
}

bool filter_test(Runtime&, const Value& target, const Args& args) {
  const Arguments given("filter", args, {});
  return target.is_string() && find_filter(target.bytes()) != nullptr;
}
bool test_test(Runtime&, const Value& target, const Args& args) {
  const Arguments given("test", args, {});
  return target.is_string() && find_predicate(target.bytes()) != nullptr;
}

/// Python's `is`: the same object, or the same constant.
bool sameas_test(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("sameas", args, {"other"}, 1);
  const Value& other = *given[0];
  if (target.kind() != other.kind()) return false;
  switch (target.kind()) {
    case Kind::kString:
      return target.text_ptr() == other.text_ptr() || target.bytes() == other.bytes();
    case Kind::kSequence:
      return &target.sequence() == &other.sequence();
    case Kind::kDict:
      return target.dict_ptr() == other.dict_ptr();
    case Kind::kUndefined:
      return false;
    default:
      return equal(runtime.budget(), target, other);
  }
}

bool in_test(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("in", args, {"seq"}, 1);
  return contains(runtime.budget(), *given[0], target);
}

template <CompareOperator kOperator>
bool compare_test(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("compare", args, {"other"}, 1);
  return compare(runtime.budget(), kOperator, target, *given[0]);
}

struct Entry {
  std::string_view name;
  TestFunction function;
};

constexpr std::array kTests = {
    Entry{"boolean", simple_test<is_boolean>},
    Entry{"callable", simple_test<is_callable>},
    Entry{"defined", simple_test<is_defined>},
    Entry{"divisibleby", divisibleby_test},
    Entry{"escaped", simple_test<is_escaped>},
    Entry{"even", even_test},
    Entry{"false", simple_test<is_false>},
    Entry{"filter", filter_test},
    Entry{"float", simple_test<is_float>},
    Entry{"in", in_test},
    Entry{"integer", simple_test<is_integer>},
    Entry{"iterable", simple_test<is_iterable>},
    Entry{"lower", lower_test},
    Entry{"mapping", simple_test<is_mapping>},
    Entry{"none", simple_test<is_none>},
    Entry{"number", simple_test<is_number>},
    Entry{"odd", odd_test},
    Entry{"sameas", sameas_test},
    Entry{"sequence", simple_test<is_sequence>},
    Entry{"string", simple_test<is_string>},
    Entry{"test", test_test},
    Entry{"true", simple_test<is_true>},
    Entry{"undefined", simple_test<is_undefined>},
    Entry{"upper", upper_test},
    Entry{"==", compare_test<CompareOperator::kEqual>},
    Entry{"eq", compare_test<CompareOperator::kEqual>},
    Entry{"equalto", compare_test<CompareOperator::kEqual>},
    Entry{"!=", compare_test<CompareOperator::kNotEqual>},
    Entry{"ne", compare_test<CompareOperator::kNotEqual>},
    Entry{">", compare_test<CompareOperator::kGreater>},
    Entry{"gt", compare_test<CompareOperator::kGreater>},
    Entry{"greaterthan", compare_test<CompareOperator::kGreater>},
    Entry{">=", compare_test<CompareOperator::kGreaterEqual>},
    Entry{"ge", compare_test<CompareOperator::kGreaterEqual>},
    Entry{"<", compare_test<CompareOperator::kLess>},
    Entry{"lt", compare_test<CompareOperator::kLess>},
    Entry{"lessthan", compare_test<CompareOperator::kLess>},
    Entry{"<=", compare_test<CompareOperator::kLessEqual>},
    Entry{"le", compare_test<CompareOperator::kLessEqual>},
};

}  // namespace

TestFunction find_predicate(std::string_view name) {
  const auto found =
      std::find_if(kTests.begin(), kTests.end(), [name](const Entry& entry) { return entry.name == name; });
  return found == kTests.end() ? nullptr : found->function;
}

}  // namespace lockstep::chat::jinja
