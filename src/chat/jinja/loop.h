// SPDX-License-Identifier: Apache-2.0
// The variable `loop`.
#pragma once

#include "chat/jinja/ast.h"
#include "chat/jinja/runtime.h"

namespace lockstep::chat::jinja {

class Loop final : public Object {
 public:
  /// `statement` and `outer` are for recursive loops: calling `loop` runs it again over other items.
  Loop(Values items, int level, const For* statement, ScopePtr outer);

  std::string_view type_name() const override { return "LoopContext"; }
  void append_repr(TextBuilder& out) const override;
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Args args) override;
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) const override;
  int depth() const override { return depth_; }

  const Values& items() const { return items_; }
  void set_position(size_t index) { index_ = index; }
  Value cycle(const Args& args) const;
  bool changed(Budget& budget, const Args& args);

 private:
  Values items_;
  size_t index_ = 0;
  int level_;
  const For* statement_;
  ScopePtr outer_;
  int depth_ = 1;
  std::optional<Values> last_changed_;
};

}  // namespace lockstep::chat::jinja
