// SPDX-License-Identifier: Apache-2.0
#include "server/http.h"

#include <boost/beast/http/status.hpp>
#include <boost/url/parse.hpp>

namespace lockstep::server {

HttpResponse json_response(const Json& json) { return json_text_response(dump(json)); }

HttpResponse json_text_response(std::string json) {
  HttpResponse response;
  response.body = std::move(json);
  return response;
}

HttpResponse error_response(const ApiError& error) {
  HttpResponse response = json_response(to_json(error));
  response.status = error.http_status;
  response.headers = error.headers;
  return response;
}

std::string format_head(const HttpResponse& response, BodyFraming framing, bool keep_alive) {
  const auto reason = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(response.status));
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nServer: lockstep\r\n", response.status,
                                std::string_view(reason.data(), reason.size()));
  if (!response.content_type.empty()) out += fmt::format("Content-Type: {}\r\n", response.content_type);
  for (const auto& [name, value] : response.headers) out += fmt::format("{}: {}\r\n", name, value);
  if (framing == BodyFraming::kContentLength && response.status != 204)
    out += fmt::format("Content-Length: {}\r\n", response.body.size());
  if (framing == BodyFraming::kChunked) out += "Transfer-Encoding: chunked\r\n";
  out += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return out;
}

std::optional<std::string> decode_path(std::string_view target) {
  const boost::core::string_view view(target.data(), target.size());
  const auto url =
      target.starts_with('/') ? boost::urls::parse_origin_form(view) : boost::urls::parse_absolute_uri(view);
  if (!url) return std::nullopt;
  // "//v1/models" in origin-form is a path with an empty first segment, as RFC 9112 says, not an authority.
  return std::string(url->encoded_path().decode());
}

}  // namespace lockstep::server
