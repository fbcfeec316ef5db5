// SPDX-License-Identifier: Apache-2.0
#include "server/field_reader.h"

#include <algorithm>
#include <utility>

namespace lockstep::server {

namespace {

std::string_view type_name(Json::value_t type) {
  switch (type) {
    case Json::value_t::string:
      return "a string";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::boolean:
      return "true or false";
    default:
      return "a number";
  }
}

/// A JSON integer in [min, max]. Unsigned values past int64 are out of every range.
std::optional<int64_t> as_integer(const Json& value, int64_t min, int64_t max) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return std::nullopt;
  const auto number = value.get<int64_t>();
  return number >= min && number <= max ? std::optional(number) : std::nullopt;
}

std::string integer_range(int64_t min, int64_t max) {
  if (max == std::numeric_limits<int64_t>::max()) {
    return min == std::numeric_limits<int64_t>::min() ? "an integer" : fmt::format("an integer, at least {}", min);
  }
  return fmt::format("an integer in {}..{}", min, max);
}

}  // namespace

FieldReader::FieldReader(const Json& object, std::string prefix) : prefix_(std::move(prefix)) {
  if (!object.is_object()) {
    const std::string name = prefix_.empty() ? "" : prefix_.substr(0, prefix_.size() - 1);
    error_ = bad_request(name, fmt::format("{} must be a JSON object", name.empty() ? "the body" : name));
    return;
  }
  for (const auto& member : object.get_ref<const Json::object_t&>()) unread_.emplace(member.first, &member.second);
}

const Json* FieldReader::get(std::string_view name) {
  const auto found = unread_.find(name);
  if (found == unread_.end()) return nullptr;
  const Json* value = found->second;
  unread_.erase(found);
  return value->is_null() ? nullptr : value;
}

void FieldReader::number(std::string_view name, std::optional<double>& out, NumberRange range) {
  const Json* value = get(name);
  if (value == nullptr) return;
  if (!value->is_number()) return fail(name, "must be a number");
  const auto number = value->get<double>();
  const bool inside = number <= range.max && (range.min_excluded ? number > range.min : number >= range.min);
  if (!inside) {
    return fail(name, fmt::format("must be in {}{}, {}]", range.min_excluded ? "(" : "[", range.min, range.max));
  }
  out = number;
}

void FieldReader::number(std::string_view name, double& out, NumberRange range) {
  std::optional<double> value;
  number(name, value, range);
  out = value.value_or(out);
}

void FieldReader::integer(std::string_view name, std::optional<int64_t>& out, int64_t min, int64_t max) {
  const Json* value = get(name);
  if (value == nullptr) return;
  const auto number = as_integer(*value, min, max);
  if (!number) return fail(name, fmt::format("must be {}", integer_range(min, max)));
  out = number;
}

void FieldReader::integer(std::string_view name, int64_t& out, int64_t min, int64_t max) {
  std::optional<int64_t> value;
  integer(name, value, min, max);
  out = value.value_or(out);
}

void FieldReader::boolean(std::string_view name, bool& out) {
  const Json* value = get(name);
  if (value == nullptr) return;
  if (!value->is_boolean()) return fail(name, "must be true or false");
  out = value->get<bool>();
}

void FieldReader::text(std::string_view name, std::optional<std::string>& out) {
  const Json* value = get(name);
  if (value == nullptr) return;
  if (!value->is_string()) return fail(name, "must be a string");
  out = value->get<std::string>();
}

void FieldReader::integers(std::string_view name, std::vector<int32_t>& out, int64_t min, int64_t max) {
  const Json* value = get(name);
  if (value == nullptr) return;
  if (!value->is_array()) return fail(name, "must be an array of integers");
  for (const Json& item : *value) {
    const auto number = as_integer(item, min, max);
    if (!number) return fail(name, fmt::format("must hold only {}", integer_range(min, max)));
    out.push_back(static_cast<int32_t>(*number));
  }
}

void FieldReader::accept(std::string_view name, Json::value_t type) {
  const Json* value = get(name);
  if (value != nullptr && value->type() != type) fail(name, fmt::format("must be {}", type_name(type)));
}

void FieldReader::refuse(std::string_view name, std::initializer_list<Json> no_ops) {
  const Json* value = get(name);
  if (value == nullptr || std::find(no_ops.begin(), no_ops.end(), *value) != no_ops.end()) return;
  std::string allowed;
  for (const Json& no_op : no_ops) allowed += (allowed.empty() ? "" : ", ") + dump(no_op);
  fail(name, allowed.empty() ? "is not supported" : fmt::format("is not supported except as {}", allowed));
}

void FieldReader::fail(std::string_view name, std::string_view what) {
  if (error_) return;
  const std::string field = prefix_ + std::string(name);
  error_ = bad_request(field, fmt::format("{} {}", field, what));
}

std::optional<ApiError> FieldReader::finish() {
  if (error_ || unread_.empty()) return error_;
  // The smallest name, so that the message does not depend on a hash.
  const auto first =
      std::min_element(unread_.begin(), unread_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::string shown = quote_text(first->first);
  return bad_request(prefix_ + shown.substr(1, shown.size() - 2),
                     fmt::format("unknown field {}", quote_text(prefix_ + std::string(first->first))));
}

}  // namespace lockstep::server
