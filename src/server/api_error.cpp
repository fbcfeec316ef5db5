// SPDX-License-Identifier: Apache-2.0
#include "server/api_error.h"

namespace lockstep::server {

namespace {

int http_status(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnsupported:
      return 400;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kResourceExhausted:
      return 429;
    case StatusCode::kUnavailable:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded:
      return 503;
    case StatusCode::kOk:
    case StatusCode::kDataLoss:
    case StatusCode::kInternal:
      break;
  }
  return 500;
}

std::string_view error_type(int status) {
  switch (status) {
    case 400:
      return "invalid_request_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return "server_error";
  }
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

ApiError bad_request(std::string param, std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  return error;
}

ApiError api_error(const Status& status) {
  ApiError error;
  error.http_status = http_status(status.code());
  error.type = error_type(error.http_status);
  error.message = status.message();
  if (error.http_status != 400) error.code = to_string(status.code());
  if (error.http_status == 429 || error.http_status == 503) error.headers.emplace_back("Retry-After", "1");
  return error;
}

ApiError run_error(request::FinishReason reason, const Status& status) {
  ApiError error;
  if (!status.ok()) {
    error = api_error(status);
  } else if (reason == request::FinishReason::kDeadline) {
    error = api_error(Status(StatusCode::kDeadlineExceeded, "the request's deadline (timeout_s) has passed"));
  } else if (reason == request::FinishReason::kCancelled) {
    error = api_error(Status(StatusCode::kCancelled, "the server ended the request"));
  } else {
    error = api_error(Status(StatusCode::kInternal, "the request has failed"));
  }
  error.code = request::to_string(reason);
  return error;
}

Json to_json(const ApiError& error) {
  return Json{{"error",
               {{"message", error.message},
                {"type", error.type},
                {"param", text_or_null(error.param)},
                {"code", text_or_null(error.code)}}}};
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string quote_text(std::string_view text) {
  constexpr size_t kMaxCharacters = 64;
  std::string out = "'";
  size_t characters = 0;
  for (char c : text) {
    if ((c & 0xc0) != 0x80 && ++characters > kMaxCharacters) {
      out += "...";
      break;
    }
    out += (c >= 0 && c < 0x20) || c == 0x7f ? '?' : c;
  }
  return out + "'";
}

}  // namespace lockstep::server
