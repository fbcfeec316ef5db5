// SPDX-License-Identifier: Apache-2.0
// Names, literals, and what may stand behind a value: attributes, indices, calls, filters, tests.
#include "chat/jinja/filters.h"
#include "chat/jinja/parser.h"
#include "chat/jinja/predicates.h"

namespace lockstep::chat::jinja {

ExpressionPtr Parser::parse_primary() {
  const Token& token = current();
  if (token.type == TokenType::kName) return parse_name();
  if (token.type == TokenType::kString) return parse_string();
  if (token.type == TokenType::kInteger || token.type == TokenType::kFloat) {
    auto node = make<Literal>(token.line);
    node->value = token.type == TokenType::kInteger ? Value(token.integer) : Value(token.number);
    take();
    return node;
  }
  if (token.is_operator("[")) return parse_list();
  if (token.is_operator("{")) return parse_dict();
  if (!token.is_operator("(")) fail_here(fmt::format("unexpected '{}'", token.describe()));
  const Nesting nesting(*this);
  take();
  ExpressionPtr node = parse_tuple(/*with_conditional=*/true, /*in_parentheses=*/true);
  expect_operator(")");
  return node;
}

ExpressionPtr Parser::parse_name() {
  const Token& token = take();
  const bool is_true = token.text == "true" || token.text == "True";
  if (is_true || token.text == "false" || token.text == "False") {
    auto node = make<Literal>(token.line);
    node->value = Value(is_true);
    return node;
  }
  if (token.text == "none" || token.text == "None") return make<Literal>(token.line);
  auto node = make<NameReference>(token.line);
  node->id = intern(token.text);
  for (MacroDefinition* macro : macros_) {
    macro->uses_caller = macro->uses_caller || token.text == "caller";
    macro->uses_varargs = macro->uses_varargs || token.text == "varargs";
    macro->uses_kwargs = macro->uses_kwargs || token.text == "kwargs";
  }
  return node;
}

ExpressionPtr Parser::parse_string() {
  auto node = make<Literal>(current().line);
  std::string text;
  while (current().type == TokenType::kString) text += take().text;  // neighbours are one string
  node->value = Value::string(text);
  return node;
}

ExpressionPtr Parser::parse_list() {
  const Nesting nesting(*this);
  auto node = make<SequenceDisplay>(take().line);
  while (!current().is_operator("]")) {
    if (!node->items.empty()) expect_operator(",");
    if (current().is_operator("]")) break;
    node->items.push_back(parse_expression());
    raise(*node, node->items.back().get());
  }
  expect_operator("]");
  return node;
}

ExpressionPtr Parser::parse_dict() {
  const Nesting nesting(*this);
  auto node = make<DictDisplay>(take().line);
  while (!current().is_operator("}")) {
    if (!node->entries.empty()) expect_operator(",");
    if (current().is_operator("}")) break;
    ExpressionPtr key = parse_expression();
    expect_operator(":");
    node->entries.emplace_back(std::move(key), parse_expression());
    raise(*node, node->entries.back().first.get());
    raise(*node, node->entries.back().second.get());
  }
  expect_operator("}");
  return node;
}

ExpressionPtr Parser::parse_postfix(ExpressionPtr node) {
  while (true) {
    if (current().is_operator(".")) {
      node = parse_attribute(std::move(node));
    } else if (current().is_operator("[")) {
      node = parse_subscript(std::move(node));
    } else if (current().is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::parse_filters_and_tests(ExpressionPtr node) {
  while (true) {
    if (current().is_operator("|")) {
      node = parse_filter_chain(std::move(node));
    } else if (current().is_name("is")) {
      node = parse_test(std::move(node));
    } else if (current().is_operator("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::parse_attribute(ExpressionPtr object) {
  const int line = take().line;
  const Token& token = take();
  if (token.type == TokenType::kName) {
    auto node = make<AttributeAccess>(line);
    node->name = token.text;
    node->object = std::move(object);
    raise(*node, node->object.get());
    return node;
  }
  if (token.type != TokenType::kInteger) fail_at(token.line, "expected a name or a number after '.'");
  auto index = make<Literal>(token.line);
  index->value = Value(token.integer);
  auto node = make<Subscript>(line);
  node->object = std::move(object);
  node->index = std::move(index);
  raise(*node, node->object.get());
  return node;
}

ExpressionPtr Parser::parse_subscript(ExpressionPtr object) {
  const Nesting nesting(*this);
  const int line = take().line;
  auto slice = make<Slice>(line);
  auto index = make<Subscript>(line);
  if (!current().is_operator(":")) index->index = parse_expression();
  if (current().is_operator(",")) fail_here("more than one index is not supported");
  if (skip_operator(":")) {
    slice->start = std::move(index->index);
    const auto at_end = [this] { return current().is_operator("]") || current().is_operator(":"); };
    if (!at_end()) slice->stop = parse_expression();
    if (skip_operator(":") && !at_end()) slice->step = parse_expression();
  }
  expect_operator("]");
  if (index->index == nullptr) {
    slice->object = std::move(object);
    raise(*slice, slice->object.get());
    raise(*slice, slice->start.get());
    raise(*slice, slice->stop.get());
    raise(*slice, slice->step.get());
    return slice;
  }
  index->object = std::move(object);
  raise(*index, index->object.get());
  raise(*index, index->index.get());
  return index;
}

ExpressionPtr Parser::parse_call(ExpressionPtr callee) {
  auto node = make<Call>(current().line);
  node->callee = std::move(callee);
  node->arguments = parse_arguments();
  raise(*node, node->callee.get());
  raise(*node, node->arguments);
  return node;
}

CallArguments Parser::parse_arguments() {
  const Nesting nesting(*this);
  CallArguments arguments;
  expect_operator("(");
  bool first = true;
  while (!current().is_operator(")")) {
    if (!first) expect_operator(",");
    if (current().is_operator(")")) break;
    parse_argument(arguments);
    first = false;
  }
  expect_operator(")");
  return arguments;
}

void Parser::parse_argument(CallArguments& arguments) {
  const auto require = [this](bool condition) {
    if (!condition) fail_here("invalid syntax for function call expression");
  };
  if (current().is_operator("*")) {
    require(arguments.star == nullptr && arguments.double_star == nullptr);
    take();
    arguments.star = parse_expression();
  } else if (current().is_operator("**")) {
    require(arguments.double_star == nullptr);
    take();
    arguments.double_star = parse_expression();
  } else if (current().type == TokenType::kName && look(1).is_operator("=")) {
    require(arguments.double_star == nullptr);
    Text name;
    name.bytes = take().text;
    take();
    for (const auto& other : arguments.named) require(other.first->bytes != name.bytes);
    arguments.named.emplace_back(std::make_shared<const Text>(std::move(name)), nullptr);
    arguments.named.back().second = parse_expression();
  } else {
    require(arguments.star == nullptr && arguments.double_star == nullptr && arguments.named.empty());
    arguments.positional.push_back(parse_expression());
  }
}

std::string Parser::parse_dotted_name() {
  std::string name = expect_any_name();
  while (skip_operator(".")) name += '.' + expect_any_name();
  return name;
}

ExpressionPtr Parser::parse_filter_chain(ExpressionPtr target) {
  while (skip_operator("|")) target = parse_filter(std::move(target));
  return target;
}

ExpressionPtr Parser::parse_filter(ExpressionPtr target) {
  auto node = make<FilterCall>(current().line);
  const std::string name = parse_dotted_name();
  node->function = find_filter(name);
  if (node->function == nullptr) {
    fail_at(node->line, is_unsupported_filter(name) ? fmt::format("filter '{}' is not supported", name)
                                                    : fmt::format("no filter named '{}'", name));
  }
  node->target = std::move(target);
  if (current().is_operator("(")) node->arguments = parse_arguments();
  raise(*node, node->target.get());
  raise(*node, node->arguments);
  return node;
}

bool Parser::begins_test_argument() const {
  const Token& token = current();
  if (token.is_name("else") || token.is_name("or") || token.is_name("and")) return false;
  return token.type == TokenType::kName || token.type == TokenType::kString || token.type == TokenType::kInteger ||
         token.type == TokenType::kFloat || token.is_operator("[") || token.is_operator("{");
}

ExpressionPtr Parser::parse_test(ExpressionPtr target) {
  const int line = take().line;
  const bool negated = skip_name("not");
  auto node = make<TestCall>(line);
  const std::string name = parse_dotted_name();
  node->function = find_predicate(name);
  if (node->function == nullptr) fail_at(line, fmt::format("no test named '{}'", name));
  node->target = std::move(target);
  if (current().is_operator("(")) {
    node->arguments = parse_arguments();
  } else if (begins_test_argument()) {
    if (current().is_name("is")) fail_here("tests can't be chained with 'is'");
    node->arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  raise(*node, node->target.get());
  raise(*node, node->arguments);
  if (!negated) return node;
  auto inverted = make<Unary>(line);
  inverted->op = UnaryOperator::kNot;
  inverted->operand = std::move(node);
  raise(*inverted, inverted->operand.get());
  return inverted;
}

}  // namespace lockstep::chat::jinja
