// SPDX-License-Identifier: Apache-2.0
// Typed reading of the fields of a JSON object; a field that is absent or null is nullopt. Internal to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "nlohmann/json.hpp"

namespace lockstep::files {

/// Errors (kDataLoss) read "config.json: rope_scaling.factor: expected a number, found a string".
class JsonFields final {
 public:
  /// `object` must be a JSON object and outlive this. `source` is the file, `prefix` is put before field names.
  JsonFields(const nlohmann::json& object, std::string source, std::string prefix = "")
      : object_(object), source_(std::move(source)), prefix_(std::move(prefix)) {}

  const std::string& source() const { return source_; }
  /// nullptr if absent or null.
  const nlohmann::json* find(const char* field) const;
  Expected<std::optional<int64_t>> integer(const char* field) const;
  Expected<std::optional<double>> number(const char* field) const;  ///< finite
  Expected<std::optional<bool>> boolean(const char* field) const;
  Expected<std::optional<std::string>> string(const char* field) const;
  /// The object's fields; nullopt if absent or null.
  Expected<std::optional<JsonFields>> object(const char* field) const;
  /// A list of finite numbers; nullopt if absent or null.
  Expected<std::optional<std::vector<double>>> numbers(const char* field) const;
  /// One token id or a list of them, 0..2^31-1; empty if absent or null.
  Expected<std::vector<int32_t>> token_ids(const char* field) const;
  Expected<std::optional<int32_t>> token_id(const char* field) const;

  template <class... Args>
  ErrorBuilder fail(StatusCode code, const char* field, fmt::format_string<Args...> format, Args&&... args) const {
    return error(code, "{}: {}{}: {}", source_, prefix_, field, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  ErrorBuilder wrong_kind(const char* field, std::string_view expected, const nlohmann::json& found) const;
  const nlohmann::json& object_;
  std::string source_;
  std::string prefix_;
};

/// Parses a JSON object. Errors: not JSON, not an object.
Expected<nlohmann::json> parse_json_object(std::string_view text, const std::string& source);

}  // namespace lockstep::files
