// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/json_fields.h"

namespace lockstep::tokenizer {
namespace {

const Json kNull;

std::string describe(const Json& value) {
  if (value.is_null()) return "missing or null";
  if (value.is_structured()) return std::string("an ") + value.type_name();
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

}  // namespace

Expected<Json> parse_json(std::string_view text, std::string_view name) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& problem) {
    return error(StatusCode::kDataLoss, "{}: not valid JSON: {}", name, problem.what());
  }
}

Field Field::at(std::string_view key) const {
  const char* separator = where_.ends_with(": ") ? "" : ".";
  std::string where = fmt::format("{}{}{}", where_, separator, key);
  if (!value_->is_object()) return {kNull, std::move(where)};
  const auto found = value_->find(key);
  return {found == value_->end() ? kNull : *found, std::move(where)};
}

Field Field::at(size_t index) const {
  std::string where = fmt::format("{}[{}]", where_, index);
  return {value_->is_array() && index < value_->size() ? (*value_)[index] : kNull, std::move(where)};
}

Status Field::expect_object() const { return value_->is_object() ? Status() : Status(wrong("an object")); }

Status Field::expect_array() const { return value_->is_array() ? Status() : Status(wrong("an array")); }

Expected<std::string> Field::string() const {
  if (!value_->is_string()) return wrong("a string");
  return value_->get<std::string>();
}

Expected<std::string_view> Field::type() const {
  LOCKSTEP_RETURN_IF_ERROR(expect_object());
  const Field member = at("type");
  if (!member.json().is_string()) return member.wrong("a string");
  return std::string_view(member.json().get_ref<const std::string&>());
}

Expected<int64_t> Field::integer() const {
  if (!value_->is_number_integer()) return wrong("an integer");
  if (value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return wrong("an integer below 2^63");
  return value_->get<int64_t>();
}

Expected<bool> Field::boolean(bool fallback) const {
  if (value_->is_null()) return fallback;
  if (!value_->is_boolean()) return wrong("true or false");
  return value_->get<bool>();
}

Expected<std::string> Field::string_or(std::string fallback) const {
  if (value_->is_null()) return fallback;
  return string();
}

ErrorBuilder Field::wrong(std::string_view expected) const {
  return error(StatusCode::kDataLoss, "{} is {}, expected {}", where_, describe(*value_), expected);
}

ErrorBuilder Field::unsupported(std::string_view why) const {
  return error(StatusCode::kUnsupported, "{} is {}: {}", where_, describe(*value_), why);
}

}  // namespace lockstep::tokenizer
