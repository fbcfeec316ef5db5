// SPDX-License-Identifier: Apache-2.0
#include "server/options.h"

#include <algorithm>

namespace lockstep::server {

namespace {

template <class T>
Status check_range(std::string_view name, T value, T min, T max) {
  if (value >= min && value <= max) return {};
  return invalid_argument("{} is {}, must be in {}..{}", name, value, min, max);
}

bool is_header_safe(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace

Status validate(const ServerOptions& options) {
  if (options.host.empty()) return invalid_argument("host is empty");
  const auto& names = options.served_model_names;
  if (names.empty() || std::count(names.begin(), names.end(), "") != 0)
    return invalid_argument("served-model-name is empty");
  for (const std::string& key : options.api_keys) {
    if (key.empty() || !is_header_safe(key)) return invalid_argument("api-key must be printable ASCII and not empty");
  }
  if (!is_header_safe(options.allowed_origin)) return invalid_argument("allowed-origin must be printable ASCII");
  LOCKSTEP_RETURN_IF_ERROR(check_range<int64_t>("max-body-bytes", options.max_body_bytes, 1, int64_t{1} << 32));
  LOCKSTEP_RETURN_IF_ERROR(check_range<int64_t>("max-header-bytes", options.max_header_bytes, 256, 1 << 20));
  LOCKSTEP_RETURN_IF_ERROR(check_range<int64_t>("max-connections", options.max_connections, 1, 1 << 20));
  LOCKSTEP_RETURN_IF_ERROR(check_range<int64_t>("max-choices", options.max_choices, 1, 1 << 16));
  LOCKSTEP_RETURN_IF_ERROR(check_range("read-timeout", options.read_timeout_s, 0.001, 1e6));
  LOCKSTEP_RETURN_IF_ERROR(check_range("idle-timeout", options.idle_timeout_s, 0.001, 1e6));
  LOCKSTEP_RETURN_IF_ERROR(check_range("write-timeout", options.write_timeout_s, 0.001, 1e6));
  LOCKSTEP_RETURN_IF_ERROR(check_range("grace-seconds", options.grace_seconds, 0.0, 1e6));
  LOCKSTEP_RETURN_IF_ERROR(check_range("io-threads", options.io_threads, 1, 64));
  return check_range("worker-threads", options.worker_threads, 1, 64);
}

std::string to_string(const ServerOptions& o) {
  return fmt::format(
      "host={} port={} served_model_names={} api_keys={} allowed_origin={} max_body_bytes={} max_header_bytes={} "
      "max_connections={} "
      "max_choices={} read_timeout_s={} idle_timeout_s={} write_timeout_s={} grace_seconds={} io_threads={} "
      "worker_threads={}",
      o.host, o.port, fmt::join(o.served_model_names, ","), o.api_keys.size(), o.allowed_origin, o.max_body_bytes,
      o.max_header_bytes, o.max_connections, o.max_choices, o.read_timeout_s, o.idle_timeout_s, o.write_timeout_s,
      o.grace_seconds, o.io_threads, o.worker_threads);
}

}  // namespace lockstep::server
