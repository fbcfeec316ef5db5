// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/runtime.h"

#include <algorithm>

#include "chat/jinja/operations.h"
#include "chat/jinja/print.h"

namespace lockstep::chat::jinja {

void Namespace::append_repr(TextBuilder& out) const {
  const Budget::Printing printing(out.budget());
  out.append("<Namespace {");
  bool first = true;
  for (const auto& [key, value] : attributes_.entries()) {
    if (!first) out.append(", ");
    first = false;
    jinja::append_repr(out, key);
    out.append(": ");
    jinja::append_repr(out, value);
  }
  out.append("}>");
}

std::optional<Value> Namespace::attribute(Runtime&, std::string_view name) const {
  const Value* found = attributes_.find(name);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

void Namespace::set(const Value& name, Value value) {
  if (name.is_string() && name.bytes().substr(0, 1) == "_") {
    fail("names of a namespace's attributes can't begin with an underscore: '{}'", name.bytes());
  }
  attributes_.set(name, std::move(value));
}

Runtime::Runtime(const TemplateNode& root, const Limits& limits, std::optional<ClockTime> now)
    : root_(root),
      budget_(limits),
      now_(now),
      globals_(root.names.size()),
      main_output_(budget_),
      output_(&main_output_),
      scope_(std::make_shared<Scope>()) {}

Runtime::~Runtime() {
  for (const auto& scope : retained_scopes_) scope->variables.clear();
  for (const auto& space : namespaces_) space->clear();
}

void Runtime::define(std::string_view name, Value value) {
  for (size_t i = 0; i < root_.names.size(); ++i) {
    if (root_.names[i] == name) globals_[i] = std::move(value);
  }
}

Runtime::Depth::Depth(Runtime& runtime) : runtime_(runtime) {
  if (runtime_.depth_ >= runtime_.budget_.limits().max_depth) {
    fail_limit("evaluations are nested more than {} deep", runtime_.budget_.limits().max_depth);
  }
  ++runtime_.depth_;
}

Value Runtime::evaluate(const Expression& expression) {
  const Depth depth(*this);
  budget_.step();
  line_ = expression.line;
  return expression.evaluate(*this);
}

Flow Runtime::execute(const Block& block) {
  const Depth depth(*this);
  for (const auto& statement : block) {
    budget_.step();
    line_ = statement->line;
    const Flow flow = statement->execute(*this);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Text Runtime::render_apart(const std::function<void()>& render, const ScopePtr& scope) {
  const Depth depth(*this);
  TextBuilder apart(budget_);
  const ScopeGuard guard(*this, scope);
  TextBuilder* const before = std::exchange(output_, &apart);
  try {
    render();
  } catch (...) {
    output_ = before;
    throw;
  }
  output_ = before;
  return apart.finish();
}

Value Runtime::filter_text(const Expression& filter, Value text) {
  block_text_ = std::move(text);
  return evaluate(filter);
}

Value Runtime::call(const Value& callee, Args args) {
  if (callee.is_undefined()) fail("{}", callee.undefined_message());
  if (!callee.is_object()) fail("'{}' object is not callable", type_name(callee));
  const ObjectPtr keep = callee.object();
  return keep->call(*this, std::move(args));
}

Args Runtime::evaluate_arguments(const CallArguments& arguments) {
  Args args;
  args.positional.reserve(arguments.positional.size());
  for (const auto& argument : arguments.positional) args.positional.push_back(evaluate(*argument));
  for (const auto& [name, argument] : arguments.named) args.named.emplace_back(name, evaluate(*argument));
  if (arguments.star != nullptr) {
    for (auto& item : iterate(budget_, evaluate(*arguments.star))) args.positional.push_back(std::move(item));
  }
  if (arguments.double_star == nullptr) return args;
  const Value more = evaluate(*arguments.double_star);
  if (!more.is_dict()) fail("argument after ** must be a mapping, not {}", type_name(more));
  for (const auto& [key, value] : more.dict().entries()) {
    if (!key.is_string()) fail("keywords must be strings");
    for (const auto& other : args.named) {
      if (other.first->bytes == key.bytes()) fail("multiple values for keyword argument '{}'", key.bytes());
    }
    args.named.emplace_back(key.text_ptr(), value);
  }
  return args;
}

const Value* Runtime::find(NameId id) const {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [name, value] : scope->variables) {
      if (name == id) return &value;
    }
  }
  const auto& global = globals_[static_cast<size_t>(id)];
  return global ? &*global : nullptr;
}

void Runtime::assign(NameId id, Value value) {
  for (auto& variable : scope_->variables) {
    if (variable.first == id) {
      variable.second = std::move(value);
      return;
    }
  }
  scope_->variables.emplace_back(id, std::move(value));
}

void Runtime::assign(const Target& target, const Value& value) {
  if (target.id < 0) {
    const Values items = iterate(budget_, value);
    if (items.size() != target.items.size()) {
      fail("can't unpack {} values into {} names", items.size(), target.items.size());
    }
    for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], items[i]);
    return;
  }
  if (target.attribute.empty()) return assign(target.id, value);
  const Value* owner = find(target.id);
  auto* space = owner != nullptr && owner->is_object() ? dynamic_cast<Namespace*>(owner->object().get()) : nullptr;
  if (space == nullptr) fail("cannot assign attribute on non-namespace object '{}'", name_of(target.id));
  space->set(Value::string(target.attribute), value);
}

ScopePtr Runtime::new_scope() const {
  auto scope = std::make_shared<Scope>();
  scope->parent = scope_;
  return scope;
}

void Runtime::retain(const ScopePtr& scope) {
  for (ScopePtr at = scope; at != nullptr && !at->retained; at = at->parent) {
    at->retained = true;
    retained_scopes_.push_back(at);
  }
}

Value Runtime::make_namespace(Dict attributes) {
  auto space = std::make_shared<Namespace>(Dict());
  namespaces_.push_back(space);
  for (const auto& [key, value] : attributes.entries()) space->set(key, value);
  return Value(ObjectPtr(std::move(space)));
}

std::tm Runtime::now() const {
  std::tm time{};
  if (!now_) {
    const std::time_t seconds = std::time(nullptr);
    localtime_r(&seconds, &time);
    return time;
  }
  time.tm_year = now_->year - 1900;
  time.tm_mon = now_->month - 1;
  time.tm_mday = now_->day;
  time.tm_hour = now_->hour;
  time.tm_min = now_->minute;
  time.tm_sec = now_->second;
  time.tm_isdst = -1;
  timegm(&time);  // fills in the weekday and the day of the year
  return time;
}

}  // namespace lockstep::chat::jinja
