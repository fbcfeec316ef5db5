// SPDX-License-Identifier: Apache-2.0
// A macro as a value: its definition and the scope that it was defined in.
#pragma once

#include "chat/jinja/ast.h"
#include "chat/jinja/runtime.h"

namespace lockstep::chat::jinja {

class MacroFunction final : public Object {
 public:
  /// `scope` must be retained by the runtime.
  MacroFunction(const MacroDefinition& definition, ScopePtr scope)
      : definition_(definition), scope_(std::move(scope)) {}

  std::string_view type_name() const override { return "Macro"; }
  void append_repr(TextBuilder& out) const override { out.append(fmt::format("<Macro '{}'>", definition_.name)); }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Args args) override;
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) const override;

 private:
  void bind_parameters(Runtime& runtime, Args& args) const;
  void bind_rest(Runtime& runtime, Args& args) const;

  const MacroDefinition& definition_;
  ScopePtr scope_;
};

/// Retains the current scope for it.
Value make_macro(Runtime& runtime, const MacroDefinition& definition);

}  // namespace lockstep::chat::jinja
