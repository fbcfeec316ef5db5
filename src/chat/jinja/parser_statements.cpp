// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "chat/jinja/parser.h"

namespace lockstep::chat::jinja {

namespace {

bool can_be_assigned(std::string_view name) {
  return name != "true" && name != "True" && name != "false" && name != "False" && name != "none" && name != "None";
}

bool is_reserved_tag(std::string_view name) {
  return name == "extends" || name == "include" || name == "import" || name == "from" || name == "autoescape";
}

std::string join_tags(const std::vector<std::string_view>& tags) {
  std::string joined;
  for (const auto tag : tags) joined += (joined.empty() ? "'" : " or '") + std::string(tag) + "'";
  return joined;
}

}  // namespace

/// After a tag's head: its block end, then statements until one of `end_tags`, which is left as the current token.
Block Parser::parse_body(const EndTags& end_tags) {
  skip_operator(":");
  expect_block_end();
  return parse_until(end_tags);
}

/// A body whose text is kept apart: no break out of it. Takes the end tag.
Block Parser::parse_apart(std::string_view end_tag) {
  const int loops = std::exchange(loops_, 0);
  Block body = parse_body({end_tag});
  loops_ = loops;
  take();
  return body;
}

Block Parser::parse_until(const EndTags& end_tags) {
  Block block;
  const auto at_end_tag = [this, &end_tags] {
    return std::any_of(end_tags.begin(), end_tags.end(),
                       [this](std::string_view tag) { return current().is_name(tag); });
  };
  while (current().type != TokenType::kEnd) {
    if (current().type == TokenType::kData) {
      auto data = make<Data>(current().line);
      data->text = take().text;
      block.push_back(std::move(data));
    } else if (current().type == TokenType::kVariableBegin) {
      block.push_back(parse_output());
    } else {
      take();  // the block's begin
      if (at_end_tag()) return block;
      if (current().type != TokenType::kName)
        fail_here(fmt::format("tag name expected, got '{}'", current().describe()));
      block.push_back(parse_statement());
      expect_block_end();
    }
  }
  if (!end_tags.empty()) {
    fail_here(fmt::format("unexpected end of template: the block '{}' is not closed, expected {}",
                          open_tags_.empty() ? "" : open_tags_.back(), join_tags(end_tags)));
  }
  return block;
}

StatementPtr Parser::parse_output() {
  auto output = make<Output>(take().line);
  output->items.push_back(parse_tuple(/*with_conditional=*/true));
  raise(*output, output->items.back().get());
  if (current().type != TokenType::kVariableEnd) fail_expected("end of print statement");
  take();
  return output;
}

StatementPtr Parser::parse_statement() {
  const Nesting nesting(*this);
  const std::string tag = current().text;
  open_tags_.push_back(tag);
  StatementPtr statement;
  if (tag == "for") {
    statement = parse_for();
  } else if (tag == "if") {
    statement = parse_if();
  } else if (tag == "set") {
    statement = parse_set();
  } else if (tag == "with") {
    statement = parse_with();
  } else if (tag == "print") {
    statement = parse_print();
  } else if (tag == "macro") {
    statement = parse_macro();
  } else if (tag == "call") {
    statement = parse_call_block();
  } else if (tag == "filter") {
    statement = parse_filter_block();
  } else if (tag == "generation") {
    take();
    statement = parse_scoped("endgeneration");
  } else if (tag == "block") {
    statement = parse_named_block();
  } else if (tag == "break" || tag == "continue") {
    statement = parse_loop_control();
  } else {
    open_tags_.pop_back();
    const std::string inside = open_tags_.empty() ? "" : fmt::format(" inside '{}'", open_tags_.back());
    fail_here(is_reserved_tag(tag) ? fmt::format("tag '{}' is not supported", tag)
                                   : fmt::format("unknown tag '{}'{}", tag, inside));
  }
  open_tags_.pop_back();
  return statement;
}

StatementPtr Parser::parse_for() {
  auto node = make<For>(take().line);
  node->loop_name = intern("loop");
  node->target = parse_target(/*allow_attribute=*/false);
  expect_name("in");
  node->iterable = parse_tuple(/*with_conditional=*/false);
  if (skip_name("if")) node->condition = parse_expression();
  node->recursive = skip_name("recursive");
  ++loops_;
  node->body = parse_body({"endfor", "else"});
  --loops_;
  if (take().text == "else") {
    node->otherwise = parse_body({"endfor"});
    take();
  }
  raise(*node, node->iterable.get());
  raise(*node, node->condition.get());
  raise(*node, node->body);
  raise(*node, node->otherwise);
  return node;
}

StatementPtr Parser::parse_if() {
  auto node = make<If>(current().line);
  std::string tag;
  do {
    take();
    ExpressionPtr condition = parse_tuple(/*with_conditional=*/false);
    raise(*node, condition.get());
    Block body = parse_body({"elif", "else", "endif"});
    raise(*node, body);
    node->branches.emplace_back(std::move(condition), std::move(body));
    tag = current().text;
  } while (tag == "elif");
  take();
  if (tag == "else") {
    node->otherwise = parse_body({"endif"});
    raise(*node, node->otherwise);
    take();
  }
  return node;
}

StatementPtr Parser::parse_set() {
  const int line = take().line;
  Target target = parse_target(/*allow_attribute=*/true);
  if (skip_operator("=")) {
    auto node = make<Set>(line);
    node->target = std::move(target);
    node->value = parse_tuple(/*with_conditional=*/true);
    raise(*node, node->value.get());
    return node;
  }
  auto node = make<SetBlock>(line);
  node->target = std::move(target);
  node->filter = parse_filter_chain(nullptr);
  node->body = parse_apart("endset");
  raise(*node, node->filter.get());
  raise(*node, node->body);
  return node;
}

StatementPtr Parser::parse_with() {
  auto node = make<With>(take().line);
  while (current().type != TokenType::kBlockEnd) {
    if (!node->assignments.empty()) expect_operator(",");
    Target target = parse_target_item(/*allow_attribute=*/false);
    expect_operator("=");
    node->assignments.emplace_back(std::move(target), parse_expression());
    raise(*node, node->assignments.back().second.get());
  }
  node->body = parse_body({"endwith"});
  take();
  raise(*node, node->body);
  return node;
}

StatementPtr Parser::parse_print() {
  auto node = make<Output>(take().line);
  while (current().type != TokenType::kBlockEnd) {
    if (!node->items.empty()) expect_operator(",");
    node->items.push_back(parse_expression());
    raise(*node, node->items.back().get());
  }
  return node;
}

NameId Parser::parse_new_name() {
  const std::string name = expect_any_name();
  if (!can_be_assigned(name)) fail_here(fmt::format("can't assign to '{}'", name));
  return intern(name);
}

void Parser::parse_signature(MacroDefinition& definition) {
  expect_operator("(");
  while (!current().is_operator(")")) {
    if (!definition.parameters.empty()) expect_operator(",");
    MacroDefinition::Parameter parameter;
    parameter.id = parse_new_name();
    parameter.name = names_[static_cast<size_t>(parameter.id)];
    if (skip_operator("=")) {
      parameter.default_value = parse_expression();
    } else if (!definition.parameters.empty() && definition.parameters.back().default_value != nullptr) {
      fail_here("a parameter without default follows one with a default");
    }
    definition.parameters.push_back(std::move(parameter));
  }
  expect_operator(")");
}

void Parser::parse_macro_body(MacroDefinition& definition, std::string_view end_tag) {
  definition.caller_id = intern("caller");
  definition.varargs_id = intern("varargs");
  definition.kwargs_id = intern("kwargs");
  macros_.push_back(&definition);
  definition.body = parse_apart(end_tag);
  macros_.pop_back();
}

StatementPtr Parser::parse_macro() {
  auto node = make<Macro>(take().line);
  node->id = parse_new_name();
  node->definition.name = names_[static_cast<size_t>(node->id)];
  parse_signature(node->definition);
  parse_macro_body(node->definition, "endmacro");
  for (const auto& parameter : node->definition.parameters) raise(*node, parameter.default_value.get());
  raise(*node, node->definition.body);
  return node;
}

StatementPtr Parser::parse_call_block() {
  auto node = make<CallBlock>(take().line);
  if (current().is_operator("(")) parse_signature(node->body);
  ExpressionPtr call = parse_expression();
  auto* as_call = dynamic_cast<Call*>(call.get());
  if (as_call == nullptr) fail_at(node->line, "the tag 'call' needs a call");
  call.release();
  node->call.reset(as_call);
  node->body.name = "caller";
  parse_macro_body(node->body, "endcall");
  raise(*node, node->call.get());
  for (const auto& parameter : node->body.parameters) raise(*node, parameter.default_value.get());
  raise(*node, node->body.body);
  return node;
}

StatementPtr Parser::parse_filter_block() {
  auto node = make<FilterBlock>(take().line);
  node->filter = parse_filter_chain(parse_filter(nullptr));
  node->body = parse_apart("endfilter");
  raise(*node, node->filter.get());
  raise(*node, node->body);
  return node;
}

StatementPtr Parser::parse_scoped(std::string_view end_tag) {
  auto node = make<Scoped>(current().line);
  node->body = parse_apart(end_tag);
  raise(*node, node->body);
  return node;
}

StatementPtr Parser::parse_named_block() {
  take();
  const std::string name = expect_any_name();
  skip_name("scoped");
  if (current().is_name("required")) fail_here("a required block needs a template that extends this one");
  StatementPtr node = parse_scoped("endblock");
  skip_name(name);
  return node;
}

StatementPtr Parser::parse_loop_control() {
  auto node = make<LoopControl>(current().line);
  node->flow = current().text == "break" ? Flow::kBreak : Flow::kContinue;
  if (loops_ == 0) fail_here(fmt::format("'{}' outside of a loop", current().text));
  take();
  return node;
}

Target Parser::parse_target_item(bool allow_attribute) {
  Target target;
  target.line = current().line;
  if (skip_operator("(")) {
    const Nesting nesting(*this);
    target = parse_target(allow_attribute);
    expect_operator(")");
    return target;
  }
  target.id = parse_new_name();
  if (allow_attribute && skip_operator(".")) target.attribute = expect_any_name();
  return target;
}

/// A name, or several with commas between them (a tuple; one name and a comma at the tag's end is one of one).
Target Parser::parse_target(bool allow_attribute) {
  Target tuple;
  tuple.line = current().line;
  const auto at_end = [this] { return current().type == TokenType::kBlockEnd || current().is_operator(")"); };
  do {
    if (!tuple.items.empty() && at_end()) return tuple;
    tuple.items.push_back(parse_target_item(allow_attribute));
  } while (skip_operator(","));
  return tuple.items.size() == 1 ? std::move(tuple.items.front()) : std::move(tuple);
}

}  // namespace lockstep::chat::jinja
