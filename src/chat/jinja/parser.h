// SPDX-License-Identifier: Apache-2.0
// Tokens to syntax tree, with jinja2's grammar. Throws TemplateError.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/ast.h"
#include "chat/jinja/lexer.h"

namespace lockstep::chat::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, const Limits& limits) : tokens_(std::move(tokens)), limits_(limits) {}
  std::shared_ptr<const TemplateNode> parse();

 private:
  using EndTags = std::vector<std::string_view>;

  // Statements (parser_statements.cpp).
  Block parse_body(const EndTags& end_tags);
  Block parse_apart(std::string_view end_tag);
  Block parse_until(const EndTags& end_tags);
  StatementPtr parse_output();
  StatementPtr parse_statement();
  StatementPtr parse_for();
  StatementPtr parse_if();
  StatementPtr parse_set();
  StatementPtr parse_with();
  StatementPtr parse_print();
  StatementPtr parse_macro();
  StatementPtr parse_call_block();
  StatementPtr parse_filter_block();
  StatementPtr parse_scoped(std::string_view end_tag);
  StatementPtr parse_named_block();
  StatementPtr parse_loop_control();
  void parse_signature(MacroDefinition& definition);
  void parse_macro_body(MacroDefinition& definition, std::string_view end_tag);
  Target parse_target(bool allow_attribute);
  Target parse_target_item(bool allow_attribute);
  NameId parse_new_name();

  // Expressions (parser_expressions.cpp).
  ExpressionPtr parse_expression();
  ExpressionPtr parse_tuple(bool with_conditional, bool in_parentheses = false);
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_logical(bool is_and);
  ExpressionPtr parse_not();
  ExpressionPtr parse_comparison();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concatenation();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filter);

  // Below the operators (parser_primary.cpp).
  ExpressionPtr parse_primary();
  ExpressionPtr parse_name();
  ExpressionPtr parse_string();
  ExpressionPtr parse_list();
  ExpressionPtr parse_dict();
  ExpressionPtr parse_postfix(ExpressionPtr node);
  ExpressionPtr parse_filters_and_tests(ExpressionPtr node);
  ExpressionPtr parse_attribute(ExpressionPtr object);
  ExpressionPtr parse_subscript(ExpressionPtr object);
  ExpressionPtr parse_call(ExpressionPtr callee);
  CallArguments parse_arguments();
  void parse_argument(CallArguments& arguments);
  ExpressionPtr parse_filter(ExpressionPtr target);
  ExpressionPtr parse_filter_chain(ExpressionPtr target);
  ExpressionPtr parse_test(ExpressionPtr target);
  std::string parse_dotted_name();
  bool begins_test_argument() const;

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& look(size_t ahead) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& take();
  bool skip_operator(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view symbol);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  void expect_block_end();
  [[noreturn]] void fail_here(const std::string& message) const;
  [[noreturn]] void fail_at(int line, const std::string& message) const;
  [[noreturn]] void fail_expected(std::string_view expected) const;

  NameId intern(const std::string& name);

  template <class T>
  std::unique_ptr<T> make(int line) {
    auto node = std::make_unique<T>();
    node->line = line;
    return node;
  }
  /// Counts the children in, and fails on a tree too high to be walked.
  void raise(Node& parent, const Node* child) const;
  void raise(Node& parent, const Block& block) const;
  void raise(Node& parent, const CallArguments& arguments) const;

  /// Guards the parser's own recursion.
  class Nesting {
   public:
    explicit Nesting(Parser& parser);
    ~Nesting();
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Parser& parser_;
  };

  std::vector<Token> tokens_;
  Limits limits_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // for blocks around, within the innermost macro
  std::vector<std::string> open_tags_;
  std::vector<MacroDefinition*> macros_;  // macros around
  std::vector<std::string> names_;
  std::map<std::string, NameId, std::less<>> name_ids_;
};

}  // namespace lockstep::chat::jinja
