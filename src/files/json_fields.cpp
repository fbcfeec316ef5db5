// SPDX-License-Identifier: Apache-2.0
#include "files/json_fields.h"

#include <cmath>
#include <limits>

#include "files/mapped_file.h"
#include "files/strict_json.h"

namespace lockstep::files {

using nlohmann::json;

namespace {

std::optional<int64_t> as_int64(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  return std::nullopt;
}

bool is_token_id(const std::optional<int64_t>& value) {
  return value && *value >= 0 && *value <= std::numeric_limits<int32_t>::max();
}

/// The value, if it is short enough to be worth showing.
std::string shown(const json& value) {
  if (value.is_number() || value.is_boolean()) return value.dump();
  if (value.is_string()) return fmt::format("\"{}\"", printable(value.get_ref<const std::string&>(), 60));
  return std::string(kind_of(value));
}

}  // namespace

ErrorBuilder JsonFields::wrong_kind(const char* field, std::string_view expected, const json& found) const {
  return fail(StatusCode::kDataLoss, field, "expected {}, found {}", expected, shown(found));
}

const json* JsonFields::find(const char* field) const {
  const auto found = object_.find(field);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

Expected<std::optional<int64_t>> JsonFields::integer(const char* field) const {
  const json* value = find(field);
  if (value == nullptr) return std::optional<int64_t>();
  const auto number = as_int64(*value);
  if (!number) return wrong_kind(field, "an integer", *value);
  return number;
}

Expected<std::optional<double>> JsonFields::number(const char* field) const {
  const json* value = find(field);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number() || !std::isfinite(value->get<double>())) return wrong_kind(field, "a number", *value);
  return std::optional<double>(value->get<double>());
}

Expected<std::optional<bool>> JsonFields::boolean(const char* field) const {
  const json* value = find(field);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return wrong_kind(field, "true or false", *value);
  return std::optional<bool>(value->get<bool>());
}

Expected<std::optional<std::string>> JsonFields::string(const char* field) const {
  const json* value = find(field);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return wrong_kind(field, "a string", *value);
  return std::optional<std::string>(value->get<std::string>());
}

Expected<std::optional<JsonFields>> JsonFields::object(const char* field) const {
  const json* value = find(field);
  if (value == nullptr) return std::optional<JsonFields>();
  if (!value->is_object()) return wrong_kind(field, "an object", *value);
  return std::optional<JsonFields>(JsonFields(*value, source_, prefix_ + field + "."));
}

Expected<std::optional<std::vector<double>>> JsonFields::numbers(const char* field) const {
  const json* value = find(field);
  if (value == nullptr) return std::optional<std::vector<double>>();
  if (!value->is_array()) return wrong_kind(field, "a list of numbers", *value);
  std::vector<double> out;
  for (const json& item : *value) {
    if (!item.is_number() || !std::isfinite(item.get<double>())) return wrong_kind(field, "a list of numbers", item);
    out.push_back(item.get<double>());
  }
  return std::optional<std::vector<double>>(std::move(out));
}

Expected<std::vector<int32_t>> JsonFields::token_ids(const char* field) const {
  std::vector<int32_t> ids;
  const json* value = find(field);
  if (value == nullptr) return ids;
  const json* items = value;
  const json list_of_one = json::array_t{*value};
  if (!value->is_array()) items = &list_of_one;
  for (const json& item : *items) {
    const auto id = as_int64(item);
    if (!is_token_id(id)) return wrong_kind(field, "token ids in 0..2^31-1", item);
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

Expected<std::optional<int32_t>> JsonFields::token_id(const char* field) const {
  LOCKSTEP_ASSIGN_OR_RETURN(const auto id, integer(field));
  if (!id) return std::optional<int32_t>();
  if (!is_token_id(id)) return wrong_kind(field, "a token id in 0..2^31-1", *find(field));
  return std::optional<int32_t>(static_cast<int32_t>(*id));
}

Expected<json> parse_json_object(std::string_view text, const std::string& source) {
  LOCKSTEP_ASSIGN_OR_RETURN(json document, parse_json(text, source));
  if (!document.is_object()) {
    return error(StatusCode::kDataLoss, "{}: expected a JSON object, found {}", source, kind_of(document));
  }
  return document;
}

}  // namespace lockstep::files
