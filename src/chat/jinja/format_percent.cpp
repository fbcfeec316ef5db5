// SPDX-License-Identifier: Apache-2.0
// text % values
#include <algorithm>

#include "chat/jinja/format_spec.h"
#include "chat/jinja/number.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/print.h"
#include "chat/jinja/string_methods.h"

namespace lockstep::chat::jinja {

namespace {

class PercentFormatter {
 public:
  PercentFormatter(Budget& budget, const Text& format, const Value& values)
      : budget_(budget), out_(budget), format_(format), values_(values) {
    is_tuple_ = values.is_sequence() && values.sequence().type == SequenceType::kTuple;
  }

  Text run() {
    const std::string& bytes = format_.bytes;
    while (at_ < bytes.size()) {
      const size_t percent = std::min(bytes.find('%', at_), bytes.size());
      out_.append(format_, at_, percent);
      at_ = percent;
      if (at_ < bytes.size()) convert();
    }
    // Python asks whether the value could be a mapping: whatever has an index can, but for tuples and strings.
    const bool mapping_used = values_.is_dict() || values_.is_undefined() || (values_.is_sequence() && !is_tuple_);
    if (!mapping_used && next_ < (is_tuple_ ? values_.sequence().items.size() : 1)) {
      fail("not all arguments converted during string formatting");
    }
    return out_.finish();
  }

 private:
  char peek() const {
    if (at_ >= format_.bytes.size()) fail("incomplete format");
    return format_.bytes[at_];
  }

  void convert() {
    ++at_;
    FormatSpec spec;
    const Value* named = peek() == '(' ? take_named() : nullptr;
    bool zero = false;
    bool left = false;
    for (; std::string_view("-+ 0#").find(peek()) != std::string_view::npos; ++at_) {
      left = left || peek() == '-';
      zero = zero || peek() == '0';
      if (peek() == '+' || (peek() == ' ' && spec.sign == '-')) spec.sign = peek();
      spec.alternate = spec.alternate || peek() == '#';
    }
    spec.width = take_size(left);
    if (peek() == '.') {
      ++at_;
      bool ignored = false;
      spec.precision = static_cast<int>(take_size(ignored));
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    spec.type = peek();
    ++at_;
    if (spec.type == '%') return out_.append("%");
    const bool text_type = spec.type == 's' || spec.type == 'r' || spec.type == 'a' || spec.type == 'c';
    if (left) spec.align = '<';
    if (zero && !left && !text_type) {
      spec.align = '=';
      spec.fill.assign(1, '0');
    }
    const Value value = named != nullptr ? *named : take_value();
    out_.append(fill_to_width(budget_, convert_value(value, spec), spec, '>'));
  }

  /// A number, or * for the next value.
  Int take_size(bool& left) {
    Int size = 0;
    if (peek() == '*') {
      ++at_;
      const Value value = take_value();
      if (!value.is_integral()) fail("* wants int");
      size = value.as_int();
      if (size < 0) {
        left = true;
        size = negate_number(Value(size)).as_int();
      }
    } else {
      for (; peek() >= '0' && peek() <= '9'; ++at_) size = std::min(size * 10 + (peek() - '0'), Int{1} << 24);
    }
    if (size > (Int{1} << 20)) fail_limit("a format's width or precision is too great");
    return size;
  }

  const Value* take_named() {
    const size_t close = format_.bytes.find(')', at_);
    if (close == std::string::npos) fail("incomplete format key");
    if (!values_.is_dict()) fail("format requires a mapping");
    const std::string key = format_.bytes.substr(at_ + 1, close - at_ - 1);
    const Value* found = values_.dict().find(std::string_view(key));
    if (found == nullptr) fail("KeyError: '{}'", key);
    at_ = close + 1;
    return found;
  }

  Value take_value() {
    const size_t count = is_tuple_ ? values_.sequence().items.size() : 1;
    if (next_ >= count) fail("not enough arguments for format string");
    ++next_;
    return is_tuple_ ? values_.sequence().items[next_ - 1] : values_;
  }

  Text own(std::string_view bytes) {
    TextBuilder builder(budget_);
    builder.append(bytes);
    return builder.finish();
  }

  Text convert_value(const Value& value, FormatSpec spec) {
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a': {
        TextBuilder builder(budget_);
        spec.type == 's' ? append_printed(builder, value) : append_repr(builder, value);
        Text text = builder.finish();
        return spec.precision ? truncate_characters(budget_, text, static_cast<size_t>(*spec.precision)) : text;
      }
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return own(convert_integer(value, spec));
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        require_defined(value);
        if (!value.is_number()) fail("must be real number, not {}", type_name(value));
        return own(format_float(value.to_double(), spec));
      case 'c':
        return convert_character(value);
      default:
        fail("unsupported format character '{}'", spec.type);
    }
  }

  static std::string convert_integer(const Value& value, FormatSpec spec) {
    require_defined(value);
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    Int whole = 0;
    if (value.is_integral()) {
      whole = value.as_int();
    } else if (!decimal || value.kind() != Kind::kFloat || !double_to_int(value.as_float(), whole)) {
      fail("%{} format: {} is required, not {}", spec.type, decimal ? "a real number" : "an integer", type_name(value));
    }
    if (decimal) spec.type = 'd';
    std::string digits = format_integer(whole, spec);
    const auto wanted = static_cast<size_t>(spec.precision.value_or(0));
    const size_t sign = digits[0] == '-' || digits[0] == '+' || digits[0] == ' ' ? 1 : 0;
    if (digits.size() - sign < wanted) digits.insert(sign, wanted - (digits.size() - sign), '0');
    return digits;
  }

  Text convert_character(const Value& value) {
    FormatSpec spec;
    spec.type = 'c';
    if (value.is_integral()) return format_value(budget_, value, spec);
    if (!value.is_string() || count_characters(value.bytes()) != 1) fail("%c requires int or char");
    return value.text();
  }

  Budget& budget_;
  TextBuilder out_;
  const Text& format_;
  const Value& values_;
  bool is_tuple_ = false;
  size_t at_ = 0;
  size_t next_ = 0;
};

}  // namespace

Value format_percent(Budget& budget, const Text& format, const Value& values) {
  return Value(PercentFormatter(budget, format, values).run());
}

}  // namespace lockstep::chat::jinja
