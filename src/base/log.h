// SPDX-License-Identifier: Apache-2.0
// Logging facade: one line an event, to stderr. Thread-safe.
#pragma once

#include <string_view>
#include <utility>

#include "fmt/format.h"

namespace lockstep {

enum class LogLevel { kDebug, kInfo, kWarning, kError, kOff };

/// Drops everything below `level`. Default kInfo. Call at start, before threads.
void set_log_level(LogLevel level);
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view message);

template <class... Args>
void log_debug(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kDebug)) log_line(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kInfo)) log_line(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kWarning)) log_line(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(LogLevel::kError)) log_line(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep
