// SPDX-License-Identifier: Apache-2.0
// Errors as values. An error that a request, a file or a resource can cause is a Status; a bug is a LOCKSTEP_CHECK.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "fmt/format.h"

namespace lockstep {

/// Canonical codes. They are mapped to HTTP codes in one place (server/) and to exit codes in another (cli/).
enum class StatusCode {
  kOk,
  kInvalidArgument,     ///< the caller's value is wrong; the message names it and the limit
  kNotFound,            ///< a file, model or tensor that isn't there
  kFailedPrecondition,  ///< right value, wrong time (e.g. warm_up before load)
  kResourceExhausted,   ///< no memory, no KV blocks, queue full
  kUnavailable,         ///< draining or not ready
  kUnsupported,         ///< a known format or feature that is not supported
  kDataLoss,            ///< a damaged file
  kCancelled,
  kDeadlineExceeded,
  kInternal,
};

/// Stable lower-case name of a code, e.g. "invalid_argument".
std::string_view to_string(StatusCode code);

/// A code and a message for people. Default-constructed: ok. Value type; not thread-safe for concurrent writes.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  /// "invalid_argument: rows is 17, at most 16" or "ok".
  std::string to_string() const;

  /// The same code with `context` and ": " in front of the message. Ok stays ok.
  Status with_context(std::string_view context) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

template <class T>
using Expected = tl::expected<T, Status>;

/// Makes the error arm of an Expected from a Status.
inline tl::unexpected<Status> unexpected(Status status) { return tl::unexpected<Status>(std::move(status)); }

/// Makes a Status from a code and a format string: `return error(StatusCode::kInvalidArgument, "rows is {}", n);`
/// Converts to Status and to any Expected<T>.
class ErrorBuilder {
 public:
  explicit ErrorBuilder(Status status) : status_(std::move(status)) {}
  operator Status() && { return std::move(status_); }  // NOLINT(google-explicit-constructor)
  template <class T>
  operator tl::expected<T, Status>() && {  // NOLINT(google-explicit-constructor)
    return tl::unexpected<Status>(std::move(status_));
  }

 private:
  Status status_;
};

template <class... Args>
ErrorBuilder error(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return ErrorBuilder(Status(code, fmt::format(format, std::forward<Args>(args)...)));
}
template <class... Args>
ErrorBuilder invalid_argument(fmt::format_string<Args...> format, Args&&... args) {
  return error(StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

}  // namespace lockstep

#define LOCKSTEP_CONCAT_INNER_(a, b) a##b
#define LOCKSTEP_CONCAT_(a, b) LOCKSTEP_CONCAT_INNER_(a, b)

/// Returns the error of a Status expression from a function that returns Status or Expected.
#define LOCKSTEP_RETURN_IF_ERROR(expr)                                        \
  do {                                                                        \
    if (::lockstep::Status lockstep_status_ = (expr); !lockstep_status_.ok()) \
      return ::lockstep::ErrorBuilder(std::move(lockstep_status_));           \
  } while (false)

/// LOCKSTEP_ASSIGN_OR_RETURN(auto x, make_x()); returns make_x()'s error, else moves the value into x.
#define LOCKSTEP_ASSIGN_OR_RETURN(lhs, expr) \
  LOCKSTEP_ASSIGN_OR_RETURN_IMPL_(LOCKSTEP_CONCAT_(lockstep_expected_, __LINE__), lhs, expr)
#define LOCKSTEP_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr)              \
  auto tmp = (expr);                                                 \
  if (!tmp) return ::lockstep::ErrorBuilder(std::move(tmp).error()); \
  lhs = std::move(*tmp)
