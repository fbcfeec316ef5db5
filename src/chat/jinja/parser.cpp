// SPDX-License-Identifier: Apache-2.0
// The parser's handling of tokens, names and bounds.
#include "chat/jinja/parser.h"

#include <algorithm>

namespace lockstep::chat::jinja {

namespace {
constexpr int kMaxHeight = 400;
}

std::shared_ptr<const TemplateNode> Parser::parse() {
  auto root = std::make_shared<TemplateNode>();
  root->body = parse_until({});
  root->names = std::move(names_);
  return root;
}

const Token& Parser::take() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::skip_operator(std::string_view symbol) {
  if (!current().is_operator(symbol)) return false;
  take();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

void Parser::expect_operator(std::string_view symbol) {
  if (!skip_operator(symbol)) fail_expected(symbol);
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail_expected(name);
}

std::string Parser::expect_any_name() {
  if (current().type != TokenType::kName) fail_expected("name");
  return take().text;
}

void Parser::expect_block_end() {
  if (current().type != TokenType::kBlockEnd) fail_expected("end of statement block");
  take();
}

void Parser::fail_at(int line, const std::string& message) const {
  throw TemplateError{StatusCode::kInvalidArgument, message, line};
}

void Parser::fail_here(const std::string& message) const { fail_at(current().line, message); }

void Parser::fail_expected(std::string_view expected) const {
  fail_here(fmt::format("expected '{}', got '{}'", expected, current().describe()));
}

NameId Parser::intern(const std::string& name) {
  const auto [entry, added] = name_ids_.try_emplace(name, static_cast<NameId>(names_.size()));
  if (added) names_.push_back(name);
  return entry->second;
}

void Parser::raise(Node& parent, const Node* child) const {
  if (child == nullptr) return;
  if (child->height >= kMaxHeight) fail_at(parent.line, "the template is nested too deep");
  parent.height = std::max(parent.height, child->height + 1);
}

void Parser::raise(Node& parent, const Block& block) const {
  for (const auto& statement : block) raise(parent, statement.get());
}

void Parser::raise(Node& parent, const CallArguments& arguments) const {
  for (const auto& argument : arguments.positional) raise(parent, argument.get());
  for (const auto& argument : arguments.named) raise(parent, argument.second.get());
  raise(parent, arguments.star.get());
  raise(parent, arguments.double_star.get());
}

Parser::Nesting::Nesting(Parser& parser) : parser_(parser) {
  if (++parser_.nesting_ > parser_.limits_.max_nesting) {
    --parser_.nesting_;
    parser_.fail_here(fmt::format("blocks and brackets are nested more than {} deep", parser_.limits_.max_nesting));
  }
}

Parser::Nesting::~Nesting() { --parser_.nesting_; }

}  // namespace lockstep::chat::jinja
