// SPDX-License-Identifier: Apache-2.0
// The endpoints that answer at once: everything but generation.
#pragma once

#include "server/generation_plan.h"
#include "server/http.h"
#include "server/router.h"
#include "server/server_state.h"

namespace lockstep::server {

/// GET endpoints, preflights and /flush_cache: quick, may run on a network thread.
HttpResponse answer_quick(const Route& route, const HttpRequest& request, const ServerState& state);

/// /tokenize and /detokenize. CPU-bound: for a worker thread. May throw std::bad_alloc only.
HttpResponse answer_tokenize(Endpoint endpoint, const std::string& body, const Backing& backing);

/// A body for /v1/completions or /v1/chat/completions up to its plan. CPU-bound: for a worker thread.
ApiResult<GenerationPlan> plan_generation(Endpoint endpoint, const std::string& body, const Backing& backing);

/// 503: why no request is taken now; nullopt if all is well.
std::optional<ApiError> unavailable(const ServerState& state);

}  // namespace lockstep::server
