// SPDX-License-Identifier: Apache-2.0
// One rendering of a template: its variables, its output, what it may still cost.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "chat/jinja/ast.h"
#include "chat/jinja/text.h"
#include "chat/jinja/value.h"

namespace lockstep::chat::jinja {

struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<NameId, Value>> variables;
  bool retained = false;
};
using ScopePtr = std::shared_ptr<Scope>;

/// The result of namespace(): attributes that a template may set.
class Namespace final : public Object {
 public:
  explicit Namespace(Dict attributes) : attributes_(std::move(attributes)) {}
  std::string_view type_name() const override { return "Namespace"; }
  void append_repr(TextBuilder& out) const override;
  std::optional<Value> attribute(Runtime& runtime, std::string_view name) const override;
  void set(const Value& name, Value value);
  void clear() { attributes_ = Dict(); }

 private:
  Dict attributes_;
};

class Runtime {
 public:
  Runtime(const TemplateNode& root, const Limits& limits, std::optional<ClockTime> now);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// A variable or function that the template starts with; names that it never uses are dropped.
  void define(std::string_view name, Value value);

  Value evaluate(const Expression& expression);
  Flow execute(const Block& block);
  /// What `render` writes, kept away from the output; it runs in `scope`.
  Text render_apart(const std::function<void()>& render, const ScopePtr& scope);
  Text render_apart(const Block& block, const ScopePtr& scope) {
    return render_apart([&] { execute(block); }, scope);
  }
  /// Evaluates a filter chain whose head has no target: that is `text`.
  Value filter_text(const Expression& filter, Value text);
  Value take_block_text() { return std::exchange(block_text_, Value()); }
  Value call(const Value& callee, Args args);
  Args evaluate_arguments(const CallArguments& arguments);

  /// The innermost variable of that name; null when there is none.
  const Value* find(NameId id) const;
  const std::string& name_of(NameId id) const { return root_.names[static_cast<size_t>(id)]; }
  void assign(NameId id, Value value);
  void assign(const Target& target, const Value& value);

  const ScopePtr& scope() const { return scope_; }
  ScopePtr new_scope() const;
  /// Makes `scope` the current one; returns the one before.
  ScopePtr enter(ScopePtr scope) { return std::exchange(scope_, std::move(scope)); }
  /// Keeps a scope, and those around it, until the end of the rendering, because a value refers to it: then a circle of
  /// references can be taken apart, and no chain of them is destroyed recursively.
  void retain(const ScopePtr& scope);
  Value make_namespace(Dict attributes);

  Budget& budget() { return budget_; }
  TextBuilder& output() { return *output_; }
  Text finish() { return main_output_.finish(); }
  int line() const { return line_; }
  void set_line(int line) { line_ = line; }
  /// The local time, for strftime_now.
  std::tm now() const;

  /// Counts an evaluation in; fails when too many are inside one another.
  class Depth {
   public:
    explicit Depth(Runtime& runtime);
    ~Depth() { --runtime_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Runtime& runtime_;
  };

 private:
  const TemplateNode& root_;
  Budget budget_;
  std::optional<ClockTime> now_;
  std::vector<std::optional<Value>> globals_;  // by NameId
  TextBuilder main_output_;
  TextBuilder* output_;
  ScopePtr scope_;
  int line_ = 1;
  int depth_ = 0;
  Value block_text_;
  std::vector<ScopePtr> retained_scopes_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

/// Returns to a scope at the end of a C++ block, also when an error passes.
class ScopeGuard {
 public:
  ScopeGuard(Runtime& runtime, ScopePtr scope) : runtime_(runtime), previous_(runtime.enter(std::move(scope))) {}
  ~ScopeGuard() { runtime_.enter(std::move(previous_)); }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Runtime& runtime_;
  ScopePtr previous_;
};

}  // namespace lockstep::chat::jinja
