// SPDX-License-Identifier: Apache-2.0
// The syntax tree. Each node computes itself; expressions are in expressions.cpp, statements in statements.cpp.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/value.h"

namespace lockstep::chat::jinja {

struct Scope;

/// A variable's name as an index into TemplateNode::names.
using NameId = int;

struct Node {
  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  virtual ~Node() = default;

  int line = 0;
  int height =
      1;  ///< nodes below this one, itself included; bounded, so that walking the tree can't overflow the stack
};

// --- expressions -----------------------------------------------------------------------------------------------------

struct Expression : Node {
  virtual Value evaluate(Runtime& runtime) const = 0;
};
using ExpressionPtr = std::unique_ptr<Expression>;

struct Literal final : Expression {
  Value value;
  Value evaluate(Runtime& runtime) const override;
};

struct NameReference final : Expression {
  NameId id = 0;
  Value evaluate(Runtime& runtime) const override;
};

struct SequenceDisplay final : Expression {
  bool is_tuple = false;
  std::vector<ExpressionPtr> items;
  Value evaluate(Runtime& runtime) const override;
};

struct DictDisplay final : Expression {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
  Value evaluate(Runtime& runtime) const override;
};

struct AttributeAccess final : Expression {
  ExpressionPtr object;
  std::string name;
  Value evaluate(Runtime& runtime) const override;
};

struct Subscript final : Expression {
  ExpressionPtr object;
  ExpressionPtr index;
  Value evaluate(Runtime& runtime) const override;
};

/// object[start:stop:step]; any part may be null.
struct Slice final : Expression {
  ExpressionPtr object;
  ExpressionPtr start;
  ExpressionPtr stop;
  ExpressionPtr step;
  Value evaluate(Runtime& runtime) const override;
};

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<TextPtr, ExpressionPtr>> named;
  ExpressionPtr star;         ///< *x, may be null
  ExpressionPtr double_star;  ///< **x, may be null
};

struct Call final : Expression {
  ExpressionPtr callee;
  CallArguments arguments;
  Value evaluate(Runtime& runtime) const override;
};

using FilterFunction = Value (*)(Runtime&, const Value& target, const Args& args);
using TestFunction = bool (*)(Runtime&, const Value& target, const Args& args);

struct FilterCall final : Expression {
  ExpressionPtr target;  ///< null: the text of a filter or set block
  FilterFunction function = nullptr;
  CallArguments arguments;
  Value evaluate(Runtime& runtime) const override;
};

struct TestCall final : Expression {
  ExpressionPtr target;
  TestFunction function = nullptr;
  CallArguments arguments;
  Value evaluate(Runtime& runtime) const override;
};

enum class UnaryOperator { kNot, kMinus, kPlus };
struct Unary final : Expression {
  UnaryOperator op = UnaryOperator::kNot;
  ExpressionPtr operand;
  Value evaluate(Runtime& runtime) const override;
};

enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
struct Binary final : Expression {
  BinaryOperator op = BinaryOperator::kAdd;
  ExpressionPtr left;
  ExpressionPtr right;
  Value evaluate(Runtime& runtime) const override;
};

/// a ~ b ~ c
struct Concatenation final : Expression {
  std::vector<ExpressionPtr> items;
  Value evaluate(Runtime& runtime) const override;
};

enum class CompareOperator { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kIn, kNotIn };
/// a < b < c, each operand evaluated at most once.
struct Comparison final : Expression {
  ExpressionPtr first;
  std::vector<std::pair<CompareOperator, ExpressionPtr>> rest;
  Value evaluate(Runtime& runtime) const override;
};

struct Logical final : Expression {
  bool is_and = false;
  ExpressionPtr left;
  ExpressionPtr right;
  Value evaluate(Runtime& runtime) const override;
};

struct Conditional final : Expression {
  ExpressionPtr condition;
  ExpressionPtr then;
  ExpressionPtr otherwise;  ///< null: undefined
  Value evaluate(Runtime& runtime) const override;
};

// --- what a value can be assigned to
// -----------------------------------------------------------------------------------

struct Target {
  int line = 0;
  NameId id = -1;             ///< -1: a tuple
  std::string attribute;      ///< not empty: an attribute of the namespace `id`
  std::vector<Target> items;  ///< of a tuple
};

// --- statements
// --------------------------------------------------------------------------------------------------------

enum class Flow { kNext, kBreak, kContinue };

struct Statement : Node {
  virtual Flow execute(Runtime& runtime) const = 0;
};
using StatementPtr = std::unique_ptr<Statement>;
using Block = std::vector<StatementPtr>;

struct Data final : Statement {
  std::string text;
  Flow execute(Runtime& runtime) const override;
};

struct Output final : Statement {
  std::vector<ExpressionPtr> items;
  Flow execute(Runtime& runtime) const override;
};

struct If final : Statement {
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
  Flow execute(Runtime& runtime) const override;
};

struct For final : Statement {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  ///< may be null
  bool recursive = false;
  NameId loop_name = 0;
  Block body;
  Block otherwise;
  Flow execute(Runtime& runtime) const override;
  /// The text of one more run, inside the loop that stands in `outer` at recursion level `level`.
  Text run_apart(Runtime& runtime, const Value& items, int level, const std::shared_ptr<Scope>& outer) const;

 private:
  Flow run(Runtime& runtime, const Value& items, int level) const;
  Values selected(Runtime& runtime, Values items) const;
};

struct Set final : Statement {
  Target target;
  ExpressionPtr value;
  Flow execute(Runtime& runtime) const override;
};

struct SetBlock final : Statement {
  Target target;
  ExpressionPtr filter;  ///< may be null
  Block body;
  Flow execute(Runtime& runtime) const override;
};

struct With final : Statement {
  std::vector<std::pair<Target, ExpressionPtr>> assignments;
  Block body;
  Flow execute(Runtime& runtime) const override;
};

struct FilterBlock final : Statement {
  ExpressionPtr filter;
  Block body;
  Flow execute(Runtime& runtime) const override;
};

/// `generation` and `block`: the body in a scope of its own.
struct Scoped final : Statement {
  Block body;
  Flow execute(Runtime& runtime) const override;
};

struct LoopControl final : Statement {
  Flow flow = Flow::kBreak;
  Flow execute(Runtime& runtime) const override;
};

/// A macro, or the body of a call block.
struct MacroDefinition {
  struct Parameter {
    NameId id = 0;
    std::string name;
    ExpressionPtr default_value;  ///< may be null
  };
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
  NameId caller_id = 0;
  NameId varargs_id = 0;
  NameId kwargs_id = 0;
  bool uses_caller = false;
  bool uses_varargs = false;
  bool uses_kwargs = false;
};

struct Macro final : Statement {
  NameId id = 0;
  MacroDefinition definition;
  Flow execute(Runtime& runtime) const override;
};

struct CallBlock final : Statement {
  std::unique_ptr<Call> call;
  MacroDefinition body;
  Flow execute(Runtime& runtime) const override;
};

struct TemplateNode {
  Block body;
  std::vector<std::string> names;
};

}  // namespace lockstep::chat::jinja
