// SPDX-License-Identifier: Apache-2.0
// Functions that templates can call: global ones, and methods bound to a value.
#pragma once

#include <memory>
#include <utility>

#include "chat/jinja/value.h"

namespace lockstep::chat::jinja {

class Function final : public Object {
 public:
  using Body = Value (*)(Runtime&, const Value& self, const Args& args);

  /// `self` is handed to the body: none for a global function.
  Function(const char* name, Body body, Value self = Value())
      : name_(name), body_(body), self_(std::move(self)), depth_(checked_depth(self_.depth())) {}

  std::string_view type_name() const override { return "builtin_function_or_method"; }
  void append_repr(TextBuilder& out) const override { out.append(fmt::format("<built-in function {}>", name_)); }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Args args) override { return body_(runtime, self_, args); }
  int depth() const override { return depth_; }

 private:
  const char* name_;
  Body body_;
  Value self_;
  int depth_;
};

inline Value make_function(const char* name, Function::Body body, Value self = Value()) {
  return Value(ObjectPtr(std::make_shared<Function>(name, body, std::move(self))));
}

}  // namespace lockstep::chat::jinja
