// SPDX-License-Identifier: Apache-2.0
// What a rendering may still cost, and the one exception that carries a template's error up to Template::render, which
// turns it into a Status. It never leaves src/chat/jinja.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"
#include "chat/jinja/template.h"
#include "fmt/format.h"

namespace lockstep::chat::jinja {

struct TemplateError {
  StatusCode code = StatusCode::kInvalidArgument;
  std::string message;
  int line = 0;  ///< 0: not known where it was thrown
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError{StatusCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...), 0};
}
template <class... Args>
[[noreturn]] void fail_limit(fmt::format_string<Args...> format, Args&&... args) {
  throw TemplateError{StatusCode::kResourceExhausted, fmt::format(format, std::forward<Args>(args)...), 0};
}

class Budget {
 public:
  explicit Budget(const Limits& limits)
      : limits_(limits), steps_left_(limits.max_steps), bytes_left_(limits.max_total_bytes) {}

  /// A node evaluated, a turn of a loop, an item copied.
  void step(size_t count = 1) {
    if (count > static_cast<size_t>(steps_left_))
      fail_limit("the template takes more than {} steps", limits_.max_steps);
    steps_left_ -= static_cast<int64_t>(count);
  }
  /// Bytes of a string made or walked over.
  void bytes(size_t count) {
    if (count > static_cast<size_t>(bytes_left_)) {
      fail_limit("the template makes more than {} bytes of text on the way", limits_.max_total_bytes);
    }
    bytes_left_ -= static_cast<int64_t>(count);
  }
  /// The size that a string is about to have.
  void value_size(size_t count) const {
    if (count > static_cast<size_t>(limits_.max_value_bytes)) {
      fail_limit("a text grows past {} bytes", limits_.max_value_bytes);
    }
  }
  const Limits& limits() const { return limits_; }

  /// Counts how deep namespaces are printed inside one another: they may hold themselves.
  class Printing {
   public:
    explicit Printing(Budget& budget) : budget_(budget) {
      if (budget_.printing_ >= kMaxPrinting) fail_limit("namespaces are nested too deep to be printed");
      ++budget_.printing_;
    }
    ~Printing() { --budget_.printing_; }
    Printing(const Printing&) = delete;
    Printing& operator=(const Printing&) = delete;

   private:
    Budget& budget_;
  };

 private:
  static constexpr int kMaxPrinting = 16;

  Limits limits_;
  int64_t steps_left_;
  int64_t bytes_left_;
  int printing_ = 0;
};

}  // namespace lockstep::chat::jinja
