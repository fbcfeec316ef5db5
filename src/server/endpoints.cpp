// SPDX-License-Identifier: Apache-2.0
#include "server/endpoints.h"

#include "server/json_reader.h"
#include "server/requests.h"

#ifndef LOCKSTEP_VERSION
#error "LOCKSTEP_VERSION comes from src/server/CMakeLists.txt"
#endif

namespace lockstep::server {

namespace {

Status still_loading() { return Status(StatusCode::kUnavailable, "the model is being loaded"); }

Json model_entry(const std::string& name, const ModelInfo& info) {
  return Json{{"id", name},
              {"object", "model"},
              {"created", info.created},
              {"owned_by", "lockstep"},
              {"root", info.root},
              {"max_model_len", info.max_model_len}};
}

HttpResponse models(const ModelInfo& info) {
  Json data = Json::array();
  for (const std::string& name : info.names) data.push_back(model_entry(name, info));
  return json_response(Json{{"object", "list"}, {"data", std::move(data)}});
}

HttpResponse model(const std::string& name, const ModelInfo& info) {
  if (auto error = check_model(name, info)) return error_response(*error);
  return json_response(model_entry(name, info));
}

HttpResponse health(const ServerState& state) {
  if (auto error = unavailable(state)) return error_response(*error);
  return json_response(Json{{"status", "ok"}});
}

HttpResponse preflight(const HttpRequest& request) {
  HttpResponse response;
  response.status = 204;
  response.content_type.clear();
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                      {"Access-Control-Allow-Headers",
                       request.requested_headers.empty() ? "authorization, content-type" : request.requested_headers},
                      {"Access-Control-Max-Age", "600"},
                      {"Allow", "GET, HEAD, POST, OPTIONS"}};
  return response;
}

HttpResponse metrics(const ServerState& state, const Backing& backing) {
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_text({backing.info.names.front(), backing.port->stats(), backing.port->block_size()},
                               state.counters, state.histograms);
  return response;
}

HttpResponse tokenize(const Json& body, const Backing& backing) {
  auto request = parse_tokenize_request(body);
  if (!request) return error_response(request.error());
  if (auto error = check_model(request->model, backing.info)) return error_response(*error);
  const auto* prompt = std::get_if<std::string>(&request->input);
  auto ids = prompt != nullptr ? backing.text->encode_prompt(*prompt, request->add_special_tokens)
                               : backing.text->encode_chat(std::get<text::ChatInput>(std::move(request->input)));
  if (!ids) return error_response(bad_request(prompt != nullptr ? "prompt" : "messages", ids.error().message()));
  Json strings = nullptr;
  if (request->return_token_strs) {
    strings = Json::array();
    for (int32_t id : *ids) strings.push_back(backing.text->token_text(id));
  }
  return json_response(Json{{"count", ids->size()},
                            {"max_model_len", backing.info.max_model_len},
                            {"tokens", *ids},
                            {"token_strs", std::move(strings)}});
}

HttpResponse detokenize(const Json& body, const Backing& backing) {
  auto request = parse_detokenize_request(body);
  if (!request) return error_response(request.error());
  if (auto error = check_model(request->model, backing.info)) return error_response(*error);
  return json_response(Json{{"prompt", backing.text->decode(request->tokens, false)}});
}

}  // namespace

std::optional<ApiError> unavailable(const ServerState& state) {
  const auto backing = state.backing();
  if (state.draining) return api_error(Status(StatusCode::kUnavailable, "the server is shutting down"));
  if (backing == nullptr) return api_error(still_loading());
  if (!backing->port->healthy()) return api_error(Status(StatusCode::kUnavailable, "the engine is not running"));
  return std::nullopt;
}

HttpResponse answer_quick(const Route& route, const HttpRequest& request, const ServerState& state) {
  switch (route.endpoint) {
    case Endpoint::kPreflight:
      return preflight(request);
    case Endpoint::kHealth:
      return health(state);
    case Endpoint::kVersion:
      return json_response(Json{{"version", LOCKSTEP_VERSION}});
    case Endpoint::kLoad:
      return json_response(Json{{"server_load", state.load.load()}});
    default:
      break;
  }
  const auto backing = state.backing();
  if (backing == nullptr) return error_response(api_error(still_loading()));
  if (route.endpoint == Endpoint::kFlushCache) {
    backing->port->flush_prefix_cache();
    return json_response(Json{{"status", "ok"}});
  }
  if (route.endpoint == Endpoint::kMetrics) return metrics(state, *backing);
  return route.endpoint == Endpoint::kModels ? models(backing->info) : model(route.argument, backing->info);
}

HttpResponse answer_tokenize(Endpoint endpoint, const std::string& body, const Backing& backing) {
  auto json = parse_body(body);
  if (!json) return error_response(json.error());
  return endpoint == Endpoint::kTokenize ? tokenize(*json, backing) : detokenize(*json, backing);
}

ApiResult<GenerationPlan> plan_generation(Endpoint endpoint, const std::string& body, const Backing& backing) {
  auto json = parse_body(body);
  if (!json) return tl::unexpected(std::move(json).error());
  if (endpoint == Endpoint::kCompletions) {
    auto request = parse_completion_request(*json, backing.info);
    if (!request) return tl::unexpected(std::move(request).error());
    return plan_completion(*std::move(request), backing.info, *backing.text);
  }
  auto request = parse_chat_request(*json, backing.info);
  if (!request) return tl::unexpected(std::move(request).error());
  return plan_chat(*std::move(request), backing.info, *backing.text);
}

}  // namespace lockstep::server
