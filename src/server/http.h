// SPDX-License-Identifier: Apache-2.0
// One HTTP request and one answer, as values.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api_error.h"

namespace lockstep::server {

struct HttpRequest {
  std::string method;             ///< upper case as sent
  std::string path;               ///< percent-decoded, without the query
  std::string authorization;      ///< header value; empty: none
  std::string origin;             ///< header value; empty: none
  std::string requested_headers;  ///< Access-Control-Request-Headers
  std::string body;
  bool keep_alive = true;       ///< what the client asks for
  bool chunked_answers = true;  ///< HTTP/1.1: the client understands chunks
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

HttpResponse json_response(const Json& json);
HttpResponse json_text_response(std::string json);
HttpResponse error_response(const ApiError& error);

/// How the answer's end is found by the client.
enum class BodyFraming { kContentLength, kChunked, kUntilClose };
/// Status line and header fields, with the empty line.
std::string format_head(const HttpResponse& response, BodyFraming framing, bool keep_alive);

/// Splits a request target into a decoded path; nullopt if it is neither origin-form nor absolute-form or is wrongly
/// encoded.
std::optional<std::string> decode_path(std::string_view target);

}  // namespace lockstep::server
