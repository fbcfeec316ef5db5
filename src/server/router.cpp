// SPDX-License-Identifier: Apache-2.0
#include "server/router.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace lockstep::server {

namespace {

struct Entry {
  std::string_view path;
  std::string_view method;
  Endpoint endpoint;
};

constexpr std::array kEntries{
    Entry{"/v1/completions", "POST", Endpoint::kCompletions},
    Entry{"/v1/chat/completions", "POST", Endpoint::kChatCompletions},
    Entry{"/v1/models", "GET", Endpoint::kModels},
    Entry{"/tokenize", "POST", Endpoint::kTokenize},
    Entry{"/detokenize", "POST", Endpoint::kDetokenize},
    Entry{"/health", "GET", Endpoint::kHealth},
    Entry{"/ping", "GET", Endpoint::kHealth},
    Entry{"/version", "GET", Endpoint::kVersion},
    Entry{"/load", "GET", Endpoint::kLoad},
    Entry{"/metrics", "GET", Endpoint::kMetrics},
    Entry{"/flush_cache", "POST", Endpoint::kFlushCache},
};
constexpr std::string_view kModelPrefix = "/v1/models/";
constexpr Entry kModelEntry{kModelPrefix, "GET", Endpoint::kModel};

/// Compares every byte of `expected` whatever `given` is.
bool equal_in_constant_time(std::string_view given, std::string_view expected) {
  unsigned difference = given.size() == expected.size() ? 0 : 1;
  for (size_t i = 0; i < expected.size(); ++i) {
    const char c = i < given.size() ? given[i] : '\0';
    difference |= static_cast<unsigned char>(c ^ expected[i]);
  }
  return difference == 0;
}

ApiError unauthorized() {
  ApiError error;
  error.http_status = 401;
  error.type = "authentication_error";
  error.message = "a valid API key is required: Authorization: Bearer <key>";
  error.code = "invalid_api_key";
  error.headers.emplace_back("WWW-Authenticate", "Bearer");
  return error;
}

ApiError not_found(const std::string& path) {
  ApiError error = api_error(Status(StatusCode::kNotFound, fmt::format("there is nothing at {}", quote_text(path))));
  return error;
}

ApiError wrong_method(const HttpRequest& request, std::string_view allowed) {
  ApiError error;
  error.http_status = 405;
  error.message =
      fmt::format("{} is not allowed at {}, use {}", quote_text(request.method), quote_text(request.path), allowed);
  error.code = "method_not_allowed";
  error.headers.emplace_back("Allow", allowed == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS");
  return error;
}

}  // namespace

bool is_authorized(std::string_view authorization, const std::vector<std::string>& api_keys) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return false;
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(authorization[i])) != kScheme[i]) return false;
  }
  std::string_view key = authorization.substr(kScheme.size());
  while (key.starts_with(' ')) key.remove_prefix(1);
  bool found = false;
  for (const std::string& expected : api_keys) found |= equal_in_constant_time(key, expected);
  return found;
}

ApiResult<Route> route(const HttpRequest& request, const std::vector<std::string>& api_keys) {
  if (request.method == "OPTIONS") return Route{Endpoint::kPreflight, "", false};
  const bool open = request.path == "/health" || request.path == "/metrics";
  if (!open && !api_keys.empty() && !is_authorized(request.authorization, api_keys))
    return tl::unexpected(unauthorized());
  const auto found =
      std::find_if(kEntries.begin(), kEntries.end(), [&](const Entry& entry) { return entry.path == request.path; });
  const bool is_model = request.path.starts_with(kModelPrefix) && request.path.size() > kModelPrefix.size();
  if (found == kEntries.end() && !is_model) return tl::unexpected(not_found(request.path));
  const Entry& entry = is_model ? kModelEntry : *found;
  const bool head = request.method == "HEAD" && entry.method == "GET";
  if (request.method != entry.method && !head) return tl::unexpected(wrong_method(request, entry.method));
  return Route{entry.endpoint, is_model ? request.path.substr(kModelPrefix.size()) : "", head};
}

}  // namespace lockstep::server
