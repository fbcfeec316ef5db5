// SPDX-License-Identifier: Apache-2.0
// Reads a JSON object field by field, strictly: every error names the field, and what nobody asked for is refused.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "server/api_error.h"

namespace lockstep::server {

struct NumberRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_excluded = false;
};

/// Each read marks its field as known; null counts as absent and leaves `out` as it was. The first error is kept and
/// finish() gives it. The object must outlive the reader.
class FieldReader final {
 public:
  /// `prefix` goes in front of names in messages and `param`: "stream_options.". A value that is no object is an error.
  explicit FieldReader(const Json& object, std::string prefix = "");

  /// The field's value; nullptr if absent or null.
  const Json* get(std::string_view name);

  void number(std::string_view name, std::optional<double>& out, NumberRange range);
  void number(std::string_view name, double& out, NumberRange range);
  void integer(std::string_view name, std::optional<int64_t>& out, int64_t min, int64_t max);
  void integer(std::string_view name, int64_t& out, int64_t min, int64_t max);
  void boolean(std::string_view name, bool& out);
  void text(std::string_view name, std::optional<std::string>& out);
  /// An array of integers in [min, max].
  void integers(std::string_view name, std::vector<int32_t>& out, int64_t min, int64_t max);

  /// Known fields without behaviour: any value of that type is fine.
  void accept(std::string_view name, Json::value_t type);
  /// Known fields that are not supported: only the values that change nothing are fine.
  void refuse(std::string_view name, std::initializer_list<Json> no_ops = {});

  void fail(std::string_view name, std::string_view what);
  bool ok() const { return !error_; }
  /// The first error, else one for a field that was never read.
  std::optional<ApiError> finish();

 private:
  std::string prefix_;
  std::unordered_map<std::string_view, const Json*> unread_;
  std::optional<ApiError> error_;
};

}  // namespace lockstep::server
