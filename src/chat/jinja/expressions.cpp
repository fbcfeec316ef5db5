// SPDX-License-Identifier: Apache-2.0
// How expressions compute themselves.
#include "chat/jinja/access.h"
#include "chat/jinja/ast.h"
#include "chat/jinja/number.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"

namespace lockstep::chat::jinja {

Value Literal::evaluate(Runtime&) const { return value; }

Value NameReference::evaluate(Runtime& runtime) const {
  const Value* found = runtime.find(id);
  return found != nullptr ? *found : Value::undefined(fmt::format("'{}' is undefined", runtime.name_of(id)));
}

Value SequenceDisplay::evaluate(Runtime& runtime) const {
  Values values;
  values.reserve(items.size());
  for (const auto& item : items) values.push_back(runtime.evaluate(*item));
  return make_sequence(runtime.budget(), is_tuple ? SequenceType::kTuple : SequenceType::kList, std::move(values));
}

Value DictDisplay::evaluate(Runtime& runtime) const {
  Dict dict;
  for (const auto& [key, value] : entries) {
    const Value name = runtime.evaluate(*key);
    dict.set(name, runtime.evaluate(*value));
  }
  return make_dict(runtime.budget(), std::move(dict));
}

Value AttributeAccess::evaluate(Runtime& runtime) const {
  const Value value = runtime.evaluate(*object);
  runtime.set_line(line);
  return get_attribute(runtime, value, name);
}

Value Subscript::evaluate(Runtime& runtime) const {
  const Value value = runtime.evaluate(*object);
  const Value position = runtime.evaluate(*index);
  runtime.set_line(line);
  return get_item(runtime, value, position);
}

Value Slice::evaluate(Runtime& runtime) const {
  const auto part = [&runtime](const ExpressionPtr& expression) {
    return expression == nullptr ? Value() : runtime.evaluate(*expression);
  };
  const Value value = runtime.evaluate(*object);
  const Value first = part(start);
  const Value last = part(stop);
  const Value stride = part(step);
  runtime.set_line(line);
  return get_slice(runtime, value, first, last, stride);
}

Value Call::evaluate(Runtime& runtime) const {
  const Value function = runtime.evaluate(*callee);
  Args args = runtime.evaluate_arguments(arguments);
  runtime.set_line(line);
  return runtime.call(function, std::move(args));
}

Value FilterCall::evaluate(Runtime& runtime) const {
  // Without a target the filter stands at the head of a block, whose text the statement hands over.
  const Value value = target == nullptr ? runtime.take_block_text() : runtime.evaluate(*target);
  const Args args = runtime.evaluate_arguments(arguments);
  runtime.set_line(line);
  return function(runtime, value, args);
}

Value TestCall::evaluate(Runtime& runtime) const {
  const Value value = runtime.evaluate(*target);
  const Args args = runtime.evaluate_arguments(arguments);
  runtime.set_line(line);
  return Value(function(runtime, value, args));
}

Value Unary::evaluate(Runtime& runtime) const {
  const Value value = runtime.evaluate(*operand);
  runtime.set_line(line);
  if (op == UnaryOperator::kNot) return Value(!truthy(value));
  require_defined(value);
  const bool minus = op == UnaryOperator::kMinus;
  if (!value.is_number()) fail("bad operand type for unary {}: '{}'", minus ? '-' : '+', type_name(value));
  if (minus) return negate_number(value);
  return value.is_bool() ? Value(value.as_int()) : value;
}

Value Binary::evaluate(Runtime& runtime) const {
  const Value a = runtime.evaluate(*left);
  const Value b = runtime.evaluate(*right);
  runtime.set_line(line);
  return binary(runtime.budget(), op, a, b);
}

Value Concatenation::evaluate(Runtime& runtime) const {
  TextBuilder builder(runtime.budget());
  for (const auto& item : items) append_printed(builder, runtime.evaluate(*item));
  return Value(builder.finish());
}

Value Comparison::evaluate(Runtime& runtime) const {
  Value a = runtime.evaluate(*first);
  for (const auto& [op, operand] : rest) {
    Value b = runtime.evaluate(*operand);
    runtime.set_line(line);
    if (!compare(runtime.budget(), op, a, b)) return Value(false);
    a = std::move(b);
  }
  return Value(true);
}

Value Logical::evaluate(Runtime& runtime) const {
  Value value = runtime.evaluate(*left);
  return truthy(value) == is_and ? runtime.evaluate(*right) : value;
}

Value Conditional::evaluate(Runtime& runtime) const {
  if (truthy(runtime.evaluate(*condition))) return runtime.evaluate(*then);
  if (otherwise != nullptr) return runtime.evaluate(*otherwise);
  return Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
}

}  // namespace lockstep::chat::jinja
