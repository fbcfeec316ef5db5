// SPDX-License-Identifier: Apache-2.0
// Fields of parsed JSON with errors that say where: "PATH: model.merges[3] is a number, expected a string".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep::tokenizer {

using Json = nlohmann::json;

/// Parses without throwing. `name` is what errors call the text.
Expected<Json> parse_json(std::string_view text, std::string_view name);

/// A JSON value and the place it came from. Points into the parsed document.
class Field final {
 public:
  Field(const Json& value, std::string where) : value_(&value), where_(std::move(where)) {}

  const Json& json() const { return *value_; }
  const std::string& where() const { return where_; }
  bool is_null() const { return value_->is_null(); }

  /// A member of this object; a null value if it has none or this isn't an object.
  Field at(std::string_view key) const;
  Field at(size_t index) const;
  size_t size() const { return value_->size(); }

  Status expect_object() const;
  Status expect_array() const;
  Expected<std::string> string() const;
  /// The member "type" of this object; the text is the document's.
  Expected<std::string_view> type() const;
  Expected<int64_t> integer() const;
  /// `fallback` if the value is null or absent.
  Expected<bool> boolean(bool fallback) const;
  Expected<std::string> string_or(std::string fallback) const;

  /// "PATH: model.type is "X", expected ..."
  ErrorBuilder wrong(std::string_view expected) const;
  ErrorBuilder unsupported(std::string_view why) const;

 private:
  const Json* value_;
  std::string where_;
};

}  // namespace lockstep::tokenizer
