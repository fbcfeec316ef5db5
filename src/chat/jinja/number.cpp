// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "chat/jinja/unicode.h"

namespace lockstep::chat::jinja {

namespace {

using Unsigned = unsigned __int128;

constexpr int kMaxPrecision = 400;

Int checked(bool overflow, Int value) {
  if (overflow) fail("an integer grows past 128 bits");
  return value;
}

std::string_view strip_spaces(std::string_view text) {
  size_t begin = 0;
  while (begin < text.size()) {
    const auto c = decode_at(text, begin);
    if (!is_space(c.value)) break;
    begin += c.bytes;
  }
  size_t end = text.size();
  while (end > begin) {
    const size_t previous = previous_character(text, end);
    if (!is_space(decode_at(text, previous).value)) break;
    end = previous;
  }
  return text.substr(begin, end - begin);
}

/// Takes out underscores that stand between two digits; false where one stands elsewhere.
bool drop_underscores(std::string_view text, std::string& out) {
  const auto is_digit_char = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || text[i - 1] == '_' || !is_digit_char(text[i + 1])) {
      return false;
    }
  }
  return true;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

/// Takes "0x" and its kin off; for base 0 that decides the base.
std::string_view take_prefix(std::string_view digits, int& base) {
  const auto prefixed = [&digits](char letter) {
    return digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == letter;
  };
  const struct {
    char letter;
    int base;
  } prefixes[] = {{'x', 16}, {'o', 8}, {'b', 2}};
  for (const auto& prefix : prefixes) {
    if ((base == 0 || base == prefix.base) && prefixed(prefix.letter)) {
      base = prefix.base;
      digits.remove_prefix(2);
      return digits.front() == '_' ? digits.substr(1) : digits;
    }
  }
  if (base == 0) base = 10;
  return digits;
}

double float_power(double base, double exponent) {
  if (base == 0.0 && exponent < 0.0) fail("0.0 cannot be raised to a negative power");
  const double result = std::pow(base, exponent);
  if (std::isnan(result) && !std::isnan(base) && !std::isnan(exponent)) {
    fail("complex numbers are not supported");
  }
  if (std::isinf(result) && !std::isinf(base) && !std::isinf(exponent)) fail("Numerical result out of range");
  return result;
}

double float_modulo(double a, double b) {
  if (b == 0.0) fail("float modulo by zero");
  double rest = std::fmod(a, b);
  if (rest != 0.0) {
    if ((b < 0.0) != (rest < 0.0)) rest += b;
  } else {
    rest = std::copysign(0.0, b);
  }
  return rest;
}

double float_floor_divide(double a, double b) {
  if (b == 0.0) fail("float floor division by zero");
  const double quotient = (a - float_modulo(a, b)) / b;
  if (quotient == 0.0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1.0 : floored;
}

Int int_floor_divide(Int a, Int b) {
  if (b == 0) fail("integer division or modulo by zero");
  if (b == -1) {
    Int result = 0;
    const bool overflow = __builtin_sub_overflow(Int{0}, a, &result);
    return checked(overflow, result);
  }
  const Int quotient = a / b;
  return a % b != 0 && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

Int int_modulo(Int a, Int b) {
  if (b == 0) fail("integer division or modulo by zero");
  if (b == -1) return 0;
  const Int rest = a % b;
  return rest != 0 && ((a < 0) != (b < 0)) ? rest + b : rest;
}

Int int_power(Int base, Int exponent) {
  if (base == 0 || base == 1) return exponent == 0 ? Int{1} : base;
  if (base == -1) return exponent % 2 == 0 ? Int{1} : Int{-1};
  Int result = 1;
  for (; exponent > 0; --exponent) {  // at most 127 turns: then it overflows
    const bool overflow = __builtin_mul_overflow(result, base, &result);
    result = checked(overflow, result);
  }
  return result;
}

bool both_integral(const Value& a, const Value& b) { return a.is_integral() && b.is_integral(); }

}  // namespace

std::string int_to_base(Int value, int base) {
  Unsigned rest = value < 0 ? Unsigned{0} - static_cast<Unsigned>(value) : static_cast<Unsigned>(value);
  std::string digits;
  do {
    digits += "0123456789abcdefghijklmnopqrstuvwxyz"[static_cast<size_t>(rest % static_cast<Unsigned>(base))];
    rest /= static_cast<Unsigned>(base);
  } while (rest != 0);
  if (value < 0) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string int_to_string(Int value) { return int_to_base(value, 10); }

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto done = std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(done.ptr - buffer));  // d.ddde+XX
  std::string sign;
  if (text.front() == '-') {
    sign = "-";
    text.remove_prefix(1);
  }
  const size_t mark = text.find('e');
  std::string digits(text.substr(0, mark));
  digits.erase(std::remove(digits.begin(), digits.end(), '.'), digits.end());
  std::string_view exponent_text = text.substr(mark + 1);
  if (exponent_text.front() == '+') exponent_text.remove_prefix(1);
  int exponent = 0;
  std::from_chars(exponent_text.data(), exponent_text.data() + exponent_text.size(), exponent);
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (digits.size() > 1) mantissa += '.' + digits.substr(1);
    return fmt::format("{}{}e{}{:02}", sign, mantissa, exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + '.' + digits.substr(whole);
}

std::string float_format(double value, char conversion, int precision) {
  const bool upper = conversion >= 'A' && conversion <= 'Z';
  if (std::isnan(value)) return upper ? "NAN" : "nan";
  if (std::isinf(value)) return std::string(value < 0 ? "-" : "") + (upper ? "INF" : "inf");
  if (precision < 0 || precision > kMaxPrecision) fail("precision is {}, at most {}", precision, kMaxPrecision);
  switch (conversion) {
    case 'e':
      return fmt::format("{:.{}e}", value, precision);
    case 'E':
      return fmt::format("{:.{}E}", value, precision);
    case 'g':
      return fmt::format("{:.{}g}", value, std::max(precision, 1));
    case 'G':
      return fmt::format("{:.{}G}", value, std::max(precision, 1));
    default:
      return fmt::format("{:.{}f}", value, precision);
  }
}

bool double_to_int(double value, Int& out) {
  if (!(std::fabs(value) < 0x1p127)) return false;
  out = static_cast<Int>(value);
  return true;
}

std::optional<Int> parse_int(std::string_view text, int base) {
  text = strip_spaces(text);
  bool negative = false;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  const bool detect = base == 0;
  std::string digits;
  if (!drop_underscores(take_prefix(text, base), digits) || digits.empty() || base < 2 || base > 36)
    return std::nullopt;
  if (detect && base == 10 && digits.size() > 1 && digits[0] == '0' &&
      digits.find_first_not_of('0') != std::string::npos) {
    return std::nullopt;
  }
  Int value = 0;
  for (const char c : digits) {
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    bool overflow = __builtin_mul_overflow(value, Int{base}, &value);
    overflow = __builtin_add_overflow(value, Int{digit}, &value) || overflow;
    value = checked(overflow, value);
  }
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip_spaces(text);
  std::string clean;
  if (!drop_underscores(text, clean)) return std::nullopt;
  std::string_view digits = clean;
  if (!digits.empty() && digits.front() == '+') digits.remove_prefix(1);
  if (digits.empty() || (digits.front() == '-' && digits != clean)) return std::nullopt;
  if (digits.find('(') != std::string_view::npos) return std::nullopt;  // from_chars reads nan(...)
  double value = 0.0;
  const auto done = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (done.ptr != digits.data() + digits.size()) return std::nullopt;
  if (done.ec == std::errc::result_out_of_range) {
    const bool tiny = digits.find("e-") != std::string_view::npos || digits.find("E-") != std::string_view::npos;
    const double magnitude = tiny ? 0.0 : HUGE_VAL;
    return digits.front() == '-' ? -magnitude : magnitude;
  }
  return done.ec == std::errc() ? std::optional(value) : std::nullopt;
}

Value add_numbers(const Value& a, const Value& b) {
  if (!both_integral(a, b)) return Value(a.to_double() + b.to_double());
  Int result = 0;
  const bool overflow = __builtin_add_overflow(a.as_int(), b.as_int(), &result);
  return Value(checked(overflow, result));
}

Value subtract_numbers(const Value& a, const Value& b) {
  if (!both_integral(a, b)) return Value(a.to_double() - b.to_double());
  Int result = 0;
  const bool overflow = __builtin_sub_overflow(a.as_int(), b.as_int(), &result);
  return Value(checked(overflow, result));
}

Value multiply_numbers(const Value& a, const Value& b) {
  if (!both_integral(a, b)) return Value(a.to_double() * b.to_double());
  Int result = 0;
  const bool overflow = __builtin_mul_overflow(a.as_int(), b.as_int(), &result);
  return Value(checked(overflow, result));
}

Value divide_numbers(const Value& a, const Value& b) {
  if (b.to_double() == 0.0) fail("division by zero");
  return Value(a.to_double() / b.to_double());
}

Value floor_divide_numbers(const Value& a, const Value& b) {
  if (both_integral(a, b)) return Value(int_floor_divide(a.as_int(), b.as_int()));
  return Value(float_floor_divide(a.to_double(), b.to_double()));
}

Value modulo_numbers(const Value& a, const Value& b) {
  if (both_integral(a, b)) return Value(int_modulo(a.as_int(), b.as_int()));
  return Value(float_modulo(a.to_double(), b.to_double()));
}

Value power_numbers(const Value& a, const Value& b) {
  if (both_integral(a, b) && b.as_int() >= 0) return Value(int_power(a.as_int(), b.as_int()));
  return Value(float_power(a.to_double(), b.to_double()));
}

Value negate_number(const Value& a) {
  return a.is_integral() ? subtract_numbers(Value(Int{0}), a) : Value(-a.as_float());
}

Value round_number(const Value& a, Int digits) {
  if (a.is_integral()) {
    if (digits >= 0) return Value(a.as_int());
    if (digits < -37) return Value(Int{0});
    const Int unit = int_power(10, -digits);
    const Int low = int_floor_divide(a.as_int(), unit);
    const Int rest = a.as_int() - low * unit;
    const bool up = rest * 2 > unit || (rest * 2 == unit && low % 2 != 0);
    return multiply_numbers(Value(low + (up ? 1 : 0)), Value(unit));
  }
  const double x = a.as_float();
  if (!std::isfinite(x) || digits > 320) return a;
  if (digits < -308) return Value(std::copysign(0.0, x));
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return Value(std::nearbyint(x / unit) * unit);
  }
  const auto rounded = parse_float(float_format(x, 'f', static_cast<int>(digits)));
  return rounded ? Value(*rounded) : a;
}

}  // namespace lockstep::chat::jinja
