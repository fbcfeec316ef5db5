// SPDX-License-Identifier: Apache-2.0
// Errors as HTTP clients see them: {"error":{"message","type","param","code"}}. The one place where a Status becomes an
// HTTP code.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "base/status.h"
#include "nlohmann/json.hpp"
#include "request/request.h"

namespace lockstep::server {

using Json = nlohmann::ordered_json;

struct ApiError {
  int http_status = 400;
  std::string type = "invalid_request_error";
  std::string message;
  std::string param;                                         ///< the field that is wrong; empty: null
  std::string code;                                          ///< e.g. model_not_found; empty: null
  std::vector<std::pair<std::string, std::string>> headers;  ///< e.g. Retry-After, Allow
};

template <class T>
using ApiResult = tl::expected<T, ApiError>;

/// 400 about one field. `param` may be empty.
ApiError bad_request(std::string param, std::string message);
/// invalid_argument 400, not_found 404, resource_exhausted 429, unavailable and failed_precondition 503, cancelled and
/// deadline 503, all else 500. 429 and 503 carry Retry-After.
ApiError api_error(const Status& status);
/// The error of a run that ended with one of kCancelled, kDeadline, kError; code is the finish reason's name.
ApiError run_error(request::FinishReason reason, const Status& status);
/// The error object.
Json to_json(const ApiError& error);
/// Compact JSON text. Never throws: bytes that are not UTF-8 become U+FFFD.
std::string dump(const Json& json);
/// A request's text for a message: in single quotes, cut after 64 characters, control characters as '?'.
std::string quote_text(std::string_view text);

}  // namespace lockstep::server
