// SPDX-License-Identifier: Apache-2.0
// How statements run.
#include "chat/jinja/ast.h"
#include "chat/jinja/loop.h"
#include "chat/jinja/macro.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"

namespace lockstep::chat::jinja {

Flow Data::execute(Runtime& runtime) const {
  runtime.output().append(text);
  return Flow::kNext;
}

Flow Output::execute(Runtime& runtime) const {
  for (const auto& item : items) append_printed(runtime.output(), runtime.evaluate(*item));
  return Flow::kNext;
}

Flow If::execute(Runtime& runtime) const {
  for (const auto& [condition, body] : branches) {
    if (truthy(runtime.evaluate(*condition))) return runtime.execute(body);
  }
  return runtime.execute(otherwise);
}

Flow For::execute(Runtime& runtime) const { return run(runtime, runtime.evaluate(*iterable), 0); }

Flow For::run(Runtime& runtime, const Value& items, int level) const {
  runtime.set_line(line);
  const ScopePtr outer = runtime.scope();
  if (recursive) runtime.retain(outer);
  const ScopeGuard guard(runtime, outer);
  const auto loop = std::make_shared<Loop>(selected(runtime, iterate(runtime.budget(), items)), level,
                                           recursive ? this : nullptr, recursive ? outer : nullptr);
  ScopePtr scope;
  for (size_t i = 0; i < loop->items().size(); ++i) {
    runtime.budget().step();
    loop->set_position(i);
    runtime.enter(outer);
    if (scope == nullptr || scope.use_count() > 1) {
      scope = runtime.new_scope();
    } else {
      scope->variables.clear();
    }
    runtime.enter(scope);
    runtime.assign(loop_name, Value(ObjectPtr(loop)));
    runtime.assign(target, loop->items()[i]);
    if (runtime.execute(body) == Flow::kBreak) return Flow::kNext;
  }
  runtime.enter(outer);
  if (!loop->items().empty()) return Flow::kNext;
  runtime.enter(runtime.new_scope());
  return runtime.execute(otherwise);  // a break in here is for the loop around
}

Values For::selected(Runtime& runtime, Values items) const {
  if (condition == nullptr) return items;
  Values kept;
  const ScopeGuard guard(runtime, runtime.new_scope());
  for (auto& item : items) {
    runtime.assign(target, item);
    if (truthy(runtime.evaluate(*condition))) kept.push_back(std::move(item));
  }
  return kept;
}

Text For::run_apart(Runtime& runtime, const Value& items, int level, const ScopePtr& outer) const {
  return runtime.render_apart([&] { run(runtime, items, level); }, outer);
}

Flow Set::execute(Runtime& runtime) const {
  runtime.assign(target, runtime.evaluate(*value));
  return Flow::kNext;
}

Flow SetBlock::execute(Runtime& runtime) const {
  Value text(runtime.render_apart(body, runtime.new_scope()));
  runtime.assign(target, filter == nullptr ? std::move(text) : runtime.filter_text(*filter, std::move(text)));
  return Flow::kNext;
}

Flow With::execute(Runtime& runtime) const {
  const ScopePtr scope = runtime.new_scope();
  std::vector<Value> values;  // all of them are computed outside of the new scope
  values.reserve(assignments.size());
  for (const auto& assignment : assignments) values.push_back(runtime.evaluate(*assignment.second));
  const ScopeGuard guard(runtime, scope);
  for (size_t i = 0; i < values.size(); ++i) runtime.assign(assignments[i].first, values[i]);
  return runtime.execute(body);
}

Flow FilterBlock::execute(Runtime& runtime) const {
  Value text(runtime.render_apart(body, runtime.new_scope()));
  append_printed(runtime.output(), runtime.filter_text(*filter, std::move(text)));
  return Flow::kNext;
}

Flow Scoped::execute(Runtime& runtime) const {
  const ScopeGuard guard(runtime, runtime.new_scope());
  return runtime.execute(body);
}

Flow LoopControl::execute(Runtime&) const { return flow; }

Flow Macro::execute(Runtime& runtime) const {
  runtime.assign(id, make_macro(runtime, definition));
  return Flow::kNext;
}

Flow CallBlock::execute(Runtime& runtime) const {
  const Value function = runtime.evaluate(*call->callee);
  Args args = runtime.evaluate_arguments(call->arguments);
  Text name;
  name.bytes = "caller";
  args.named.emplace_back(std::make_shared<const Text>(std::move(name)), make_macro(runtime, body));
  runtime.set_line(line);
  append_printed(runtime.output(), runtime.call(function, std::move(args)));
  return Flow::kNext;
}

}  // namespace lockstep::chat::jinja
