// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/loop.h"

#include <algorithm>

#include "chat/jinja/arguments.h"
#include "chat/jinja/function.h"
#include "chat/jinja/operations.h"

namespace lockstep::chat::jinja {

namespace {

Value cycle_function(Runtime&, const Value& self, const Args& args) {
  return static_cast<const Loop&>(*self.object()).cycle(args);
}

Value changed_function(Runtime& runtime, const Value& self, const Args& args) {
  return Value(static_cast<Loop&>(*self.object()).changed(runtime.budget(), args));
}

}  // namespace

Loop::Loop(Values items, int level, const For* statement, ScopePtr outer)
    : items_(std::move(items)), level_(level), statement_(statement), outer_(std::move(outer)) {
  int depth = 0;
  for (const auto& item : items_) depth = std::max(depth, item.depth());
  depth_ = checked_depth(depth);
}

void Loop::append_repr(TextBuilder& out) const {
  out.append(fmt::format("<LoopContext {}/{}>", index_ + 1, items_.size()));
}

Value Loop::call(Runtime& runtime, Args args) {
  const Arguments given("loop", args, {"iterable"}, 1);
  if (statement_ == nullptr) fail("The loop must have the 'recursive' marker to be called recursively.");
  return Value(statement_->run_apart(runtime, *given[0], level_ + 1, outer_));
}

Value Loop::cycle(const Args& args) const {
  if (args.positional.empty()) fail("no items for cycling given");
  return args.positional[index_ % args.positional.size()];
}

bool Loop::changed(Budget& budget, const Args& args) {
  for (const auto& value : args.positional) {
    if (holds_object(value)) fail("loop.changed() takes no functions, loops or namespaces");
  }
  bool same = last_changed_ && last_changed_->size() == args.positional.size();
  for (size_t i = 0; same && i < args.positional.size(); ++i) {
    same = equal(budget, (*last_changed_)[i], args.positional[i]);
  }
  if (!same) last_changed_ = args.positional;
  return !same;
}

std::optional<Value> Loop::attribute(Runtime&, std::string_view name) const {
  const auto number = [](size_t x) { return Value(static_cast<Int>(x)); };
  const auto self = [this] { return Value(std::const_pointer_cast<Object>(shared_from_this())); };
  const bool is_last = index_ + 1 >= items_.size();
  if (name == "index") return number(index_ + 1);
  if (name == "index0") return number(index_);
  if (name == "revindex") return number(items_.size() - index_);
  if (name == "revindex0") return number(items_.size() - index_ - 1);
  if (name == "first") return Value(index_ == 0);
  if (name == "last") return Value(is_last);
  if (name == "length") return number(items_.size());
  if (name == "depth") return Value(Int{level_} + 1);
  if (name == "depth0") return Value(Int{level_});
  if (name == "previtem") return index_ == 0 ? Value::undefined("there is no previous item") : items_[index_ - 1];
  if (name == "nextitem") return is_last ? Value::undefined("there is no next item") : items_[index_ + 1];
  if (name == "cycle") return make_function("cycle", cycle_function, self());
  if (name == "changed") return make_function("changed", changed_function, self());
  return std::nullopt;
}

}  // namespace lockstep::chat::jinja
