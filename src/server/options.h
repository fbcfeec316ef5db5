// SPDX-License-Identifier: Apache-2.0
// Options of the HTTP server. Validated once by Server::start, immutable afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace lockstep::server {

struct ServerOptions {
  std::string host = "127.0.0.1";                ///< address or name to listen on; "0.0.0.0" or "::" for all
  uint16_t port = 8000;                          ///< 0: any free one, see Server::port()
  std::vector<std::string> served_model_names;   ///< at least one; the first is the one in answers
  std::string model_root;                        ///< shown as "root" by /v1/models
  std::vector<std::string> api_keys;             ///< empty: no key is asked for. /health and /metrics never ask for one
  std::string allowed_origin = "*";              ///< CORS: Access-Control-Allow-Origin; empty: no CORS headers
  int64_t max_body_bytes = int64_t{16} << 20;    ///< larger bodies are 413
  int64_t max_header_bytes = int64_t{32} << 10;  ///< larger headers are 431
  int64_t max_connections = 1024;                ///< further ones are answered 503 and closed
  int64_t max_choices = 128;                     ///< prompts x n of one request
  double read_timeout_s = 60;                    ///< for a whole request, once its first byte is there
  double idle_timeout_s = 75;                    ///< for the first byte of a further request
  double write_timeout_s = 60;                   ///< for a client that takes no byte at all
  double grace_seconds = 30;                     ///< what running requests get after SIGTERM; 0: none
  int io_threads = 2;                            ///< network
  int worker_threads = 2;                        ///< JSON, templates, tokenizing
  bool handle_signals = true;                    ///< SIGTERM and SIGINT drain; a second one exits at once
};

/// kInvalidArgument names option, value and limit.
Status validate(const ServerOptions& options);
/// One line for the start-up log; keys are only counted.
std::string to_string(const ServerOptions& options);

}  // namespace lockstep::server
