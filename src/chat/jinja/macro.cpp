// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/macro.h"

#include <algorithm>

namespace lockstep::chat::jinja {

namespace {

/// Takes a named argument out; absent when it wasn't given.
std::optional<Value> take_named(Args& args, std::string_view name) {
  const auto found = std::find_if(args.named.begin(), args.named.end(),
                                  [name](const auto& argument) { return argument.first->bytes == name; });
  if (found == args.named.end()) return std::nullopt;
  Value value = std::move(found->second);
  args.named.erase(found);
  return value;
}

}  // namespace

Value make_macro(Runtime& runtime, const MacroDefinition& definition) {
  runtime.retain(runtime.scope());
  return Value(ObjectPtr(std::make_shared<MacroFunction>(definition, runtime.scope())));
}

Value MacroFunction::call(Runtime& runtime, Args args) {
  const Runtime::Depth depth(runtime);
  const ScopeGuard guard(runtime, scope_);
  const ScopePtr scope = runtime.new_scope();
  runtime.enter(scope);  // the guard leaves it again
  bind_parameters(runtime, args);
  bind_rest(runtime, args);
  return Value(runtime.render_apart(definition_.body, scope));
}

void MacroFunction::bind_parameters(Runtime& runtime, Args& args) const {
  const auto& parameters = definition_.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& parameter = parameters[i];
    if (i < args.positional.size()) {
      runtime.assign(parameter.id, args.positional[i]);
    } else if (auto named = take_named(args, parameter.name)) {
      runtime.assign(parameter.id, *std::move(named));
    } else if (parameter.default_value != nullptr) {
      runtime.assign(parameter.id, runtime.evaluate(*parameter.default_value));
    } else {
      runtime.assign(parameter.id, Value::undefined(fmt::format("parameter '{}' was not provided", parameter.name)));
    }
  }
}

/// caller, varargs and kwargs, and what is left over.
void MacroFunction::bind_rest(Runtime& runtime, Args& args) const {
  const std::string& name = definition_.name;
  const size_t count = definition_.parameters.size();
  if (definition_.uses_caller) {
    auto caller = take_named(args, "caller");
    const bool is_parameter = std::any_of(definition_.parameters.begin(), definition_.parameters.end(),
                                          [](const auto& parameter) { return parameter.name == "caller"; });
    if (!is_parameter) {
      runtime.assign(definition_.caller_id, caller ? *std::move(caller) : Value::undefined("No caller defined"));
    }
  }
  if (definition_.uses_kwargs) {
    Dict dict;
    for (auto& [key, value] : args.named) dict.set(Value(key), std::move(value));
    runtime.assign(definition_.kwargs_id, make_dict(runtime.budget(), std::move(dict)));
  } else if (!args.named.empty()) {
    fail("macro '{}' takes no keyword argument '{}'", name, args.named.front().first->bytes);
  }
  if (definition_.uses_varargs) {
    const size_t taken = std::min(count, args.positional.size());
    Values rest(args.positional.begin() + static_cast<std::ptrdiff_t>(taken), args.positional.end());
    runtime.assign(definition_.varargs_id, make_tuple(runtime.budget(), std::move(rest)));
  } else if (args.positional.size() > count) {
    fail("macro '{}' takes not more than {} argument(s)", name, count);
  }
}

std::optional<Value> MacroFunction::attribute(Runtime& runtime, std::string_view name) const {
  if (name == "name") return Value::string(definition_.name);
  if (name == "catch_kwargs") return Value(definition_.uses_kwargs);
  if (name == "catch_varargs") return Value(definition_.uses_varargs);
  if (name == "caller") return Value(definition_.uses_caller);
  if (name != "arguments") return std::nullopt;
  Values names;
  for (const auto& parameter : definition_.parameters) names.push_back(Value::string(parameter.name));
  return make_tuple(runtime.budget(), std::move(names));
}

}  // namespace lockstep::chat::jinja
