// SPDX-License-Identifier: Apache-2.0
// Cuts a template into tokens, by the rules of jinja2's lexer with trim_blocks and lstrip_blocks on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/value.h"

namespace lockstep::chat::jinja {

enum class TokenType {
  kData,           ///< text between tags
  kBlockBegin,     ///< {%
  kBlockEnd,       ///< %}
  kVariableBegin,  ///< {{
  kVariableEnd,    ///< }}
  kName,
  kString,  ///< text holds the decoded characters
  kInteger,
  kFloat,
  kOperator,  ///< text holds the operator
  kEnd
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;
  Int integer = 0;
  double number = 0.0;

  bool is_operator(std::string_view symbol) const { return type == TokenType::kOperator && text == symbol; }
  bool is_name(std::string_view name) const { return type == TokenType::kName && text == name; }
  /// For messages: the name, the operator, or what it is.
  std::string describe() const;
};

/// The last token is kEnd. Throws TemplateError, with its line.
std::vector<Token> tokenize(std::string_view source);

}  // namespace lockstep::chat::jinja
