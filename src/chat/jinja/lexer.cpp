// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "chat/jinja/number.h"
#include "chat/jinja/string_literal.h"
#include "chat/jinja/unicode.h"

namespace lockstep::chat::jinja {

namespace {

/// "\r\n" and "\r" become "\n"; one line end at the very end is dropped.
std::string normalise_source(std::string_view source) {
  std::string text = normalise_newlines(source);
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string text) : text_(std::move(text)) {}

  std::vector<Token> run() {
    while (pos_ < text_.size()) lex_root();
    add(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  // --- text between tags ---------------------------------------------------------------------------------------------

  void lex_root() {
    const size_t tag = find_tag();
    if (tag == std::string::npos) {
      add_data(text_.size());
      move_to(text_.size());
      return;
    }
    const char kind = text_[tag + 1];
    size_t after = tag + 2;
    const char sign = peek(after) == '-' || peek(after) == '+' ? text_[after] : '\0';
    if (sign != '\0') ++after;
    const size_t raw_body = kind == '%' ? raw_begin(after) : std::string::npos;
    add_data(stripped_end(tag, sign, /*may_lstrip=*/kind != '{'));
    move_to(tag);
    if (raw_body != std::string::npos) {
      move_to(raw_body);
      lex_raw();
    } else if (kind == '#') {
      move_to(after);
      lex_comment();
    } else {
      add(kind == '%' ? TokenType::kBlockBegin : TokenType::kVariableBegin, kind == '%' ? "{%" : "{{");
      move_to(after);
      lex_tag(kind == '%' ? '%' : '}');
    }
  }

  size_t find_tag() const {
    for (size_t at = text_.find('{', pos_); at != std::string::npos; at = text_.find('{', at + 1)) {
      const char next = peek(at + 1);
      if (next == '%' || next == '{' || next == '#') return at;
    }
    return std::string::npos;
  }

  /// Where the text before a tag ends, after the tag's sign and lstrip_blocks have had their say.
  size_t stripped_end(size_t tag, char sign, bool may_lstrip) const {
    if (sign == '-') {
      size_t end = tag;
      while (end > pos_ && space_before(end)) end = previous_character(text_, end);
      return end;
    }
    if (sign == '+' || !may_lstrip) return tag;
    size_t end = tag;
    while (end > pos_ && text_[end - 1] != '\n' && space_before(end)) end = previous_character(text_, end);
    const bool at_line_start = end > pos_ ? text_[end - 1] == '\n' : line_starting_;
    return at_line_start ? end : tag;
  }

  bool space_before(size_t end) const { return is_space(decode_at(text_, previous_character(text_, end)).value); }

  void add_data(size_t end) {
    if (end > pos_) add(TokenType::kData, text_.substr(pos_, end - pos_));
  }

  // --- raw blocks and comments ---------------------------------------------------------------------------------------

  /// `after` lies behind "{%" and its sign. Where the raw text begins, or npos when the tag isn't `raw`.
  size_t raw_begin(size_t after) const {
    size_t at = skip_spaces(after);
    if (text_.compare(at, 3, "raw") != 0) return std::string::npos;
    at = skip_spaces(at + 3);
    if (text_.compare(at, 3, "-%}") == 0) return skip_spaces(at + 3);
    return text_.compare(at, 2, "%}") == 0 ? at + 2 : std::string::npos;
  }

  void lex_raw() {
    for (size_t tag = text_.find("{%", pos_); tag != std::string::npos; tag = text_.find("{%", tag + 1)) {
      size_t at = tag + 2;
      const char sign = peek(at) == '-' || peek(at) == '+' ? text_[at++] : '\0';
      at = skip_spaces(at);
      if (text_.compare(at, 6, "endraw") != 0) continue;
      at = skip_spaces(at + 6);
      const size_t end = tag_end(at, '%');
      if (end == std::string::npos) continue;
      add_data(stripped_end(tag, sign, /*may_lstrip=*/true));
      return move_to(end);
    }
    if (pos_ < text_.size()) fail_here("Missing end of raw directive");  // jinja2 lets it pass at the very end
  }

  void lex_comment() {
    const size_t close = text_.find("#}", pos_);
    if (close == std::string::npos) {
      if (pos_ < text_.size()) fail_here("Missing end of comment tag");
      return;  // jinja2 lets it pass at the very end
    }
    const size_t end = close > pos_ && (text_[close - 1] == '-' || text_[close - 1] == '+') ? close - 1 : close;
    move_to(tag_end(end, '#'));
  }

  /// Behind "%}", "-%}" (with the white space after it) or "+%}" at `at`; npos when there is none. Without a sign,
  /// trim_blocks takes one line end.
  size_t tag_end(size_t at, char kind) const {
    const char sign = peek(at);
    const size_t close = sign == '-' || sign == '+' ? at + 1 : at;
    if (peek(close) != kind || peek(close + 1) != '}') return std::string::npos;
    if (sign == '-') return skip_spaces(close + 2);
    return sign != '+' && peek(close + 2) == '\n' ? close + 3 : close + 2;
  }

  // --- inside a tag --------------------------------------------------------------------------------------------------

  void lex_tag(char kind) {
    std::string open;  // brackets that wait for their partner
    while (pos_ < text_.size()) {
      if (open.empty()) {
        const size_t end = kind == '%' ? tag_end(pos_, '%') : variable_end();
        if (end != std::string::npos) {
          add(kind == '%' ? TokenType::kBlockEnd : TokenType::kVariableEnd, kind == '%' ? "%}" : "}}");
          return move_to(end);
        }
      }
      lex_tag_token(open);
    }
  }

  size_t variable_end() const {
    if (text_.compare(pos_, 3, "-}}") == 0) return skip_spaces(pos_ + 3);
    return text_.compare(pos_, 2, "}}") == 0 ? pos_ + 2 : std::string::npos;
  }

  void lex_tag_token(std::string& open) {
    const auto c = decode_at(text_, pos_);
    if (is_space(c.value)) return move_to(skip_spaces(pos_));
    if (is_ascii_digit(text_[pos_])) return lex_number();
    if (is_identifier(c.value)) return lex_name();
    if (text_[pos_] == '\'' || text_[pos_] == '"') return lex_string();
    lex_operator(open);
  }

  void lex_name() {
    size_t end = pos_;
    while (end < text_.size()) {
      const auto c = decode_at(text_, end);
      if (!is_identifier(c.value)) break;
      end += c.bytes;
    }
    add(TokenType::kName, text_.substr(pos_, end - pos_));
    move_to(end);
  }

  /// Behind digits with single underscores between them; `from` itself when there are none.
  size_t skip_digits(size_t from) const {
    size_t at = from;
    while (is_ascii_digit(peek(at)) || (at > from && peek(at) == '_' && is_ascii_digit(peek(at + 1)))) ++at;
    return at;
  }

  size_t float_end() const {
    if (pos_ > 0 && text_[pos_ - 1] == '.') return std::string::npos;
    const size_t whole = skip_digits(pos_);
    size_t end = whole;
    if (peek(end) == '.' && is_ascii_digit(peek(end + 1))) end = skip_digits(end + 1);
    if (peek(end) == 'e' || peek(end) == 'E') {
      const size_t digits = peek(end + 1) == '+' || peek(end + 1) == '-' ? end + 2 : end + 1;
      if (is_ascii_digit(peek(digits))) end = skip_digits(digits);
    }
    return end > whole ? end : std::string::npos;
  }

  size_t integer_end() const {
    if (text_[pos_] != '0') return skip_digits(pos_);
    const char letter = static_cast<char>(peek(pos_ + 1) | 0x20);
    const std::string_view digits = letter == 'x' ? "0123456789abcdefABCDEF" : letter == 'o' ? "01234567" : "01";
    if (letter == 'x' || letter == 'o' || letter == 'b') {
      const auto is_member = [digits](char c) { return c != '\0' && digits.find(c) != std::string_view::npos; };
      size_t end = pos_ + 2;
      while (is_member(peek(end)) || (peek(end) == '_' && is_member(peek(end + 1)))) ++end;
      if (end > pos_ + 2) return end;
    }
    size_t end = pos_ + 1;
    while (peek(end) == '0' || (peek(end) == '_' && peek(end + 1) == '0')) ++end;
    return end;
  }

  void lex_number() {
    const size_t as_float = float_end();
    const size_t end = as_float != std::string::npos ? as_float : integer_end();
    add(as_float != std::string::npos ? TokenType::kFloat : TokenType::kInteger, text_.substr(pos_, end - pos_));
    Token& token = tokens_.back();
    std::string digits = token.text;
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    if (token.type == TokenType::kFloat) {
      token.number = parse_float(digits).value_or(0.0);
    } else {
      token.integer = parse_int(digits, 0).value_or(0);
    }
    move_to(end);
  }

  void lex_string() {
    const char quote = text_[pos_];
    size_t end = pos_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail_here(fmt::format("a string that begins with {} is not closed", quote));
    std::string decoded;
    const std::string problem =
        decode_string_literal(std::string_view(text_).substr(pos_ + 1, end - pos_ - 1), decoded);
    if (!problem.empty()) fail_here(problem);
    add(TokenType::kString, std::move(decoded));
    move_to(end + 1);
  }

  void lex_operator(std::string& open) {
    static constexpr std::array<std::string_view, 6> kPairs = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kSingles = "+-/*%~[](){}><=.:|,;";
    std::string symbol = text_.substr(pos_, 2);
    if (std::find(kPairs.begin(), kPairs.end(), symbol) == kPairs.end()) {
      symbol = text_.substr(pos_, 1);
      if (kSingles.find(symbol) == std::string_view::npos) {
        const auto c = decode_at(text_, pos_);
        fail_here(fmt::format("unexpected character '{}'", text_.substr(pos_, c.bytes)));
      }
    }
    const size_t opening = std::string_view("([{").find(symbol);
    if (opening != std::string_view::npos) open += ")]}"[opening];
    if (symbol == ")" || symbol == "]" || symbol == "}") {
      if (open.empty()) fail_here(fmt::format("unexpected '{}'", symbol));
      if (open.back() != symbol[0]) fail_here(fmt::format("unexpected '{}', expected '{}'", symbol, open.back()));
      open.pop_back();
    }
    const size_t end = pos_ + symbol.size();
    add(TokenType::kOperator, std::move(symbol));
    move_to(end);
  }

  // --- helpers -------------------------------------------------------------------------------------------------------

  char peek(size_t at) const { return at < text_.size() ? text_[at] : '\0'; }

  size_t skip_spaces(size_t at) const {
    while (at < text_.size()) {
      const auto c = decode_at(text_, at);
      if (!is_space(c.value)) break;
      at += c.bytes;
    }
    return std::min(at, text_.size());
  }

  void add(TokenType type, std::string text) { tokens_.push_back({type, line_, std::move(text), 0, 0.0}); }

  void move_to(size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(pos_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    if (end > pos_) line_starting_ = text_[end - 1] == '\n';
    pos_ = end;
  }

  [[noreturn]] void fail_here(std::string message) const {
    throw TemplateError{StatusCode::kInvalidArgument, std::move(message), line_};
  }

  std::string text_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // the last thing consumed ended a line
  std::vector<Token> tokens_;
};

}  // namespace

std::string Token::describe() const {
  switch (type) {
    case TokenType::kData:
      return "template text";
    case TokenType::kBlockBegin:
      return "begin of statement block";
    case TokenType::kBlockEnd:
      return "end of statement block";
    case TokenType::kVariableBegin:
      return "begin of print statement";
    case TokenType::kVariableEnd:
      return "end of print statement";
    case TokenType::kString:
      return "string";
    case TokenType::kEnd:
      return "end of template";
    default:
      return text;
  }
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(normalise_source(source)).run(); }

}  // namespace lockstep::chat::jinja
