// SPDX-License-Identifier: Apache-2.0
// Matches a call's arguments to the parameters of a function of ours.
#pragma once

#include <array>
#include <initializer_list>
#include <string_view>

#include "chat/jinja/value.h"

namespace lockstep::chat::jinja {

class Arguments {
 public:
  static constexpr size_t kMax = 6;

  /// Errors: too many, unknown or doubled arguments, or fewer than the first `required` ones. `args` must outlive this.
  Arguments(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
            size_t required = 0);

  /// Null when it wasn't given.
  const Value* operator[](size_t index) const { return values_[index]; }
  bool given(size_t index) const { return values_[index] != nullptr; }
  /// Given and not none.
  bool set(size_t index) const { return given(index) && !values_[index]->is_none(); }

  // Errors: a value of another type.
  const Text& text(size_t index) const;
  Int integer(size_t index, Int otherwise) const;
  bool truth(size_t index, bool otherwise) const;

 private:
  [[noreturn]] void fail_type(size_t index, std::string_view expected) const;

  std::string_view function_;
  std::array<std::string_view, kMax> names_{};
  std::array<const Value*, kMax> values_{};
};

}  // namespace lockstep::chat::jinja
