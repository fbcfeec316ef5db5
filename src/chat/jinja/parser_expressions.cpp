// SPDX-License-Identifier: Apache-2.0
// Operators.
#include <array>

#include "chat/jinja/parser.h"

namespace lockstep::chat::jinja {

namespace {

template <class Operator>
struct Symbol {
  std::string_view text;
  Operator op;
};

template <class Operator, size_t kCount>
const Symbol<Operator>* find_symbol(const std::array<Symbol<Operator>, kCount>& symbols, const Token& token) {
  for (const auto& symbol : symbols) {
    if (token.is_operator(symbol.text)) return &symbol;
  }
  return nullptr;
}

constexpr std::array<Symbol<CompareOperator>, 6> kComparisons = {{{"==", CompareOperator::kEqual},
                                                                  {"!=", CompareOperator::kNotEqual},
                                                                  {"<", CompareOperator::kLess},
                                                                  {"<=", CompareOperator::kLessEqual},
                                                                  {">", CompareOperator::kGreater},
                                                                  {">=", CompareOperator::kGreaterEqual}}};
constexpr std::array<Symbol<BinaryOperator>, 2> kSums = {
    {{"+", BinaryOperator::kAdd}, {"-", BinaryOperator::kSubtract}}};
constexpr std::array<Symbol<BinaryOperator>, 4> kProducts = {{{"*", BinaryOperator::kMultiply},
                                                              {"/", BinaryOperator::kDivide},
                                                              {"//", BinaryOperator::kFloorDivide},
                                                              {"%", BinaryOperator::kModulo}}};
constexpr std::array<Symbol<BinaryOperator>, 1> kPowers = {{{"**", BinaryOperator::kPower}}};

}  // namespace

ExpressionPtr Parser::parse_expression() { return parse_conditional(); }

ExpressionPtr Parser::parse_tuple(bool with_conditional, bool in_parentheses) {
  auto tuple = make<SequenceDisplay>(current().line);
  tuple->is_tuple = true;
  const auto at_end = [this] {
    const Token& token = current();
    return token.type == TokenType::kVariableEnd || token.type == TokenType::kBlockEnd || token.is_operator(")");
  };
  bool comma = false;
  while (true) {
    if (!tuple->items.empty()) expect_operator(",");
    if (at_end()) break;
    tuple->items.push_back(with_conditional ? parse_expression() : parse_logical(/*is_and=*/false));
    raise(*tuple, tuple->items.back().get());
    if (!current().is_operator(",")) break;
    comma = true;
  }
  if (comma) return tuple;
  if (!tuple->items.empty()) return std::move(tuple->items.front());
  if (!in_parentheses) fail_here(fmt::format("expected an expression, got '{}'", current().describe()));
  return tuple;
}

ExpressionPtr Parser::parse_conditional() {
  const Nesting nesting(*this);
  const int line = current().line;
  ExpressionPtr node = parse_logical(/*is_and=*/false);
  while (skip_name("if")) {
    auto conditional = make<Conditional>(line);
    conditional->then = std::move(node);
    conditional->condition = parse_logical(/*is_and=*/false);
    if (skip_name("else")) conditional->otherwise = parse_conditional();
    raise(*conditional, conditional->then.get());
    raise(*conditional, conditional->condition.get());
    raise(*conditional, conditional->otherwise.get());
    node = std::move(conditional);
  }
  return node;
}

ExpressionPtr Parser::parse_logical(bool is_and) {
  ExpressionPtr node = is_and ? parse_not() : parse_logical(/*is_and=*/true);
  while (current().is_name(is_and ? "and" : "or")) {
    auto logical = make<Logical>(take().line);
    logical->is_and = is_and;
    logical->left = std::move(node);
    logical->right = is_and ? parse_not() : parse_logical(/*is_and=*/true);
    raise(*logical, logical->left.get());
    raise(*logical, logical->right.get());
    node = std::move(logical);
  }
  return node;
}

ExpressionPtr Parser::parse_not() {
  if (!current().is_name("not")) return parse_comparison();
  const Nesting nesting(*this);
  auto node = make<Unary>(take().line);
  node->op = UnaryOperator::kNot;
  node->operand = parse_not();
  raise(*node, node->operand.get());
  return node;
}

ExpressionPtr Parser::parse_comparison() {
  auto node = make<Comparison>(current().line);
  node->first = parse_sum();
  while (true) {
    CompareOperator op = CompareOperator::kIn;
    if (const auto* symbol = find_symbol(kComparisons, current())) {
      op = symbol->op;
      take();
    } else if (current().is_name("not") && look(1).is_name("in")) {
      op = CompareOperator::kNotIn;
      take();
      take();
    } else if (!skip_name("in")) {
      break;
    }
    node->rest.emplace_back(op, parse_sum());
    raise(*node, node->rest.back().second.get());
  }
  if (node->rest.empty()) return std::move(node->first);
  raise(*node, node->first.get());
  return node;
}

ExpressionPtr Parser::parse_sum() {
  ExpressionPtr node = parse_concatenation();
  while (const auto* symbol = find_symbol(kSums, current())) {
    auto binary = make<Binary>(take().line);
    binary->op = symbol->op;
    binary->left = std::move(node);
    binary->right = parse_concatenation();
    raise(*binary, binary->left.get());
    raise(*binary, binary->right.get());
    node = std::move(binary);
  }
  return node;
}

ExpressionPtr Parser::parse_concatenation() {
  auto node = make<Concatenation>(current().line);
  do {
    node->items.push_back(parse_product());
    raise(*node, node->items.back().get());
  } while (skip_operator("~"));
  if (node->items.size() == 1) return std::move(node->items.front());
  return node;
}

ExpressionPtr Parser::parse_product() {
  ExpressionPtr node = parse_power();
  while (const auto* symbol = find_symbol(kProducts, current())) {
    auto binary = make<Binary>(take().line);
    binary->op = symbol->op;
    binary->left = std::move(node);
    binary->right = parse_power();
    raise(*binary, binary->left.get());
    raise(*binary, binary->right.get());
    node = std::move(binary);
  }
  return node;
}

ExpressionPtr Parser::parse_power() {
  ExpressionPtr node = parse_unary(/*with_filter=*/true);
  while (const auto* symbol = find_symbol(kPowers, current())) {  // leftmost first, as jinja2 does
    auto binary = make<Binary>(take().line);
    binary->op = symbol->op;
    binary->left = std::move(node);
    binary->right = parse_unary(/*with_filter=*/true);
    raise(*binary, binary->left.get());
    raise(*binary, binary->right.get());
    node = std::move(binary);
  }
  return node;
}

ExpressionPtr Parser::parse_unary(bool with_filter) {
  ExpressionPtr node;
  if (current().is_operator("-") || current().is_operator("+")) {
    const Nesting nesting(*this);
    auto unary = make<Unary>(current().line);
    unary->op = take().text == "-" ? UnaryOperator::kMinus : UnaryOperator::kPlus;
    unary->operand = parse_unary(/*with_filter=*/false);
    raise(*unary, unary->operand.get());
    node = std::move(unary);
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

}  // namespace lockstep::chat::jinja
