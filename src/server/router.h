// SPDX-License-Identifier: Apache-2.0
// Which endpoint a request is for, and whether it may go there.
#pragma once

#include <string>
#include <vector>

#include "server/http.h"

namespace lockstep::server {

enum class Endpoint {
  kCompletions,
  kChatCompletions,
  kModels,
  kModel,
  kTokenize,
  kDetokenize,
  kFlushCache,
  kHealth,
  kVersion,
  kLoad,
  kMetrics,
  kPreflight,
};

struct Route {
  Endpoint endpoint = Endpoint::kHealth;
  std::string argument;  ///< kModel: the id
  bool head = false;     ///< HEAD: the answer without its body
};

/// Key check first, then 404 and 405 (with Allow): without the key nothing is revealed. OPTIONS is a CORS preflight,
/// for any path and without a key. Paths are compared as they are: a slash more is another path.
ApiResult<Route> route(const HttpRequest& request, const std::vector<std::string>& api_keys);

/// "Bearer <key>", the scheme in any case. The time depends on the lengths only, not on where keys differ.
bool is_authorized(std::string_view authorization, const std::vector<std::string>& api_keys);

}  // namespace lockstep::server
