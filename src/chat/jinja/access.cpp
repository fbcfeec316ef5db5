// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/access.h"

#include <algorithm>
#include <array>

#include "chat/jinja/arguments.h"
#include "chat/jinja/function.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/print.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/string_methods.h"

namespace lockstep::chat::jinja {

namespace {

/// A method of str, bound to its text.
class StringFunction final : public Object {
 public:
  StringFunction(StringMethod method, TextPtr self) : method_(method), self_(std::move(self)) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Args args) override { return method_(runtime, *self_, args); }

 private:
  StringMethod method_;
  TextPtr self_;
};

Value dict_get(Runtime&, const Value& self, const Args& args) {
  const Arguments given("get", args, {"key", "default"}, 1);
  const Value* found = self.dict().find(*given[0]);
  if (found != nullptr) return *found;
  return given.given(1) ? *given[1] : Value();
}

Value dict_view(Runtime& runtime, const Value& self, SequenceType type) {
  Values items;
  for (const auto& [key, value] : self.dict().entries()) {
    if (type == SequenceType::kKeys) items.push_back(key);
    if (type == SequenceType::kValues) items.push_back(value);
    if (type == SequenceType::kItems) items.push_back(make_tuple(runtime.budget(), {key, value}));
  }
  return make_sequence(runtime.budget(), type, std::move(items));
}
Value dict_keys(Runtime& runtime, const Value& self, const Args& args) {
  const Arguments given("keys", args, {});
  return dict_view(runtime, self, SequenceType::kKeys);
}
Value dict_values(Runtime& runtime, const Value& self, const Args& args) {
  const Arguments given("values", args, {});
  return dict_view(runtime, self, SequenceType::kValues);
}
Value dict_items(Runtime& runtime, const Value& self, const Args& args) {
  const Arguments given("items", args, {});
  return dict_view(runtime, self, SequenceType::kItems);
}
Value copy_value(Runtime&, const Value& self, const Args& args) {
  const Arguments given("copy", args, {});
  return self;  // values don't change, so a copy can be the same
}

Value sequence_index(Runtime& runtime, const Value& self, const Args& args) {
  const Arguments given("index", args, {"value"}, 1);
  const Values& items = self.sequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (equal(runtime.budget(), items[i], *given[0])) return Value(static_cast<Int>(i));
  }
  fail("{} is not in {}", to_text(runtime.budget(), *given[0]).bytes, type_name(self));
}
Value sequence_count(Runtime& runtime, const Value& self, const Args& args) {
  const Arguments given("count", args, {"value"}, 1);
  Int count = 0;
  for (const auto& item : self.sequence().items) count += equal(runtime.budget(), item, *given[0]) ? 1 : 0;
  return Value(count);
}

struct Method {
  const char* name;
  Function::Body body;  // null: changes the object, which the sandbox forbids
};
constexpr std::array kDictMethods = {
    Method{"get", dict_get},       Method{"items", dict_items}, Method{"keys", dict_keys},
    Method{"values", dict_values}, Method{"copy", copy_value},  Method{"clear", nullptr},
    Method{"pop", nullptr},        Method{"popitem", nullptr},  Method{"setdefault", nullptr},
    Method{"update", nullptr},
};
constexpr std::array kListMethods = {
    Method{"index", sequence_index}, Method{"count", sequence_count}, Method{"copy", copy_value},
    Method{"append", nullptr},       Method{"clear", nullptr},        Method{"extend", nullptr},
    Method{"insert", nullptr},       Method{"pop", nullptr},          Method{"remove", nullptr},
    Method{"reverse", nullptr},      Method{"sort", nullptr},
};
constexpr size_t kTupleMethods = 2;  // tuples have the first two of a list's

Value unsafe(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
}

template <size_t kCount>
std::optional<Value> bind(const std::array<Method, kCount>& methods, size_t count, const Value& object,
                          std::string_view name) {
  const auto* end = methods.begin() + count;
  const auto* found = std::find_if(methods.begin(), end, [name](const Method& method) { return method.name == name; });
  if (found == end) return std::nullopt;
  if (found->body == nullptr) return unsafe(object, name);
  return make_function(found->name, found->body, object);
}

std::string missing_message(Budget& budget, const Value& object, const Value& index) {
  if (index.is_string()) return fmt::format("'{}' has no attribute '{}'", object_name(object), index.bytes());
  TextBuilder builder(budget);
  append_repr(builder, index);
  return fmt::format("{} has no element {}", object_name(object), builder.finish().bytes);
}

/// Where Python finds nothing: absent.
std::optional<Value> find_item(Runtime& runtime, const Value& object, const Value& index) {
  if (object.is_dict()) {
    std::string key;
    if (!hash_key(index, key)) return std::nullopt;
    const Value* found = object.dict().find(index);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  if (!index.is_integral()) return std::nullopt;
  const auto at = [&index](size_t size) -> std::optional<size_t> {
    const Int wanted = index.as_int() < 0 ? index.as_int() + static_cast<Int>(size) : index.as_int();
    if (wanted < 0 || wanted >= static_cast<Int>(size)) return std::nullopt;
    return static_cast<size_t>(wanted);
  };
  if (object.is_string()) {
    const Text& text = object.text();
    runtime.budget().bytes(text.bytes.size());
    const auto character = at(count_characters(text.bytes));
    if (!character) return std::nullopt;
    const size_t begin = byte_of_character(text.bytes, *character);
    return Value(slice_bytes(runtime.budget(), text, begin, begin + decode_at(text.bytes, begin).bytes));
  }
  if (!object.is_sequence()) return std::nullopt;
  const Sequence& sequence = object.sequence();
  const bool indexed = sequence.type == SequenceType::kList || sequence.type == SequenceType::kTuple ||
                       sequence.type == SequenceType::kRange;
  const auto position = indexed ? at(sequence.items.size()) : std::nullopt;
  return position ? std::optional(sequence.items[*position]) : std::nullopt;
}

Int slice_bound(const Value& value, Int size, Int step, Int otherwise) {
  if (value.is_none()) return otherwise;
  if (!value.is_integral()) fail("slice indices must be integers or None");
  const Int low = step < 0 ? -1 : 0;
  const Int high = step < 0 ? size - 1 : size;
  const Int wanted = value.as_int() < 0 ? value.as_int() + size : value.as_int();
  return std::clamp(wanted, low, std::max(low, high));
}

/// The indices that a slice takes, in order.
std::vector<size_t> slice_indices(Budget& budget, size_t length, const Value& start, const Value& stop,
                                  const Value& step_value) {
  const auto size = static_cast<Int>(length);
  if (!step_value.is_none() && !step_value.is_integral()) fail("slice indices must be integers or None");
  const Int step = step_value.is_none() ? Int{1} : std::clamp(step_value.as_int(), -size - 1, size + 1);
  if (step == 0) fail("slice step cannot be zero");
  const Int first = slice_bound(start, size, step, step < 0 ? size - 1 : 0);
  const Int last = slice_bound(stop, size, step, step < 0 ? -1 : size);
  std::vector<size_t> indices;
  for (Int i = first; step < 0 ? i > last : i < last; i += step) indices.push_back(static_cast<size_t>(i));
  budget.step(indices.size());
  return indices;
}

Value slice_text(Budget& budget, const Text& text, const Value& start, const Value& stop, const Value& step) {
  budget.bytes(text.bytes.size());
  if (step.is_none() || (step.is_integral() && step.as_int() == 1)) {
    const auto size = static_cast<Int>(count_characters(text.bytes));
    const Int first = slice_bound(start, size, 1, 0);
    const Int last = std::max(first, slice_bound(stop, size, 1, size));
    const size_t begin = byte_of_character(text.bytes, static_cast<size_t>(first));
    const size_t end = last == size ? text.bytes.size() : byte_of_character(text.bytes, static_cast<size_t>(last));
    return Value(slice_bytes(budget, text, begin, end));
  }
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.bytes.size(); at += decode_at(text.bytes, at).bytes) offsets.push_back(at);
  TextBuilder builder(budget);
  for (const size_t i : slice_indices(budget, offsets.size(), start, stop, step)) {
    builder.append(text, offsets[i], offsets[i] + decode_at(text.bytes, offsets[i]).bytes);
  }
  return Value(builder.finish());
}

}  // namespace

std::optional<Value> find_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (!object.is_undefined() && name.starts_with("__") && name.ends_with("__")) return unsafe(object, name);
  switch (object.kind()) {
    case Kind::kUndefined:
      fail("{}", object.undefined_message());
    case Kind::kString: {
      const StringMethod method = find_string_method(name);
      if (method == nullptr) return std::nullopt;
      return Value(ObjectPtr(std::make_shared<StringFunction>(method, object.text_ptr())));
    }
    case Kind::kDict:
      return bind(kDictMethods, kDictMethods.size(), object, name);
    case Kind::kSequence:
      if (object.sequence().type == SequenceType::kList) return bind(kListMethods, kListMethods.size(), object, name);
      if (object.sequence().type == SequenceType::kTuple || object.sequence().type == SequenceType::kRange) {
        return bind(kListMethods, kTupleMethods, object, name);
      }
      return std::nullopt;
    case Kind::kObject:
      return object.object()->attribute(runtime, name);
    default:
      return std::nullopt;
  }
}

Value get_attribute(Runtime& runtime, const Value& object, std::string_view name) {
  if (auto found = find_attribute(runtime, object, name)) return *std::move(found);
  if (object.is_dict()) {
    const Value* item = object.dict().find(name);
    if (item != nullptr) return *item;
  }
  return Value::undefined(fmt::format("'{}' has no attribute '{}'", object_name(object), name));
}

Value get_item(Runtime& runtime, const Value& object, const Value& index) {
  require_defined(object);
  if (auto found = find_item(runtime, object, index)) return *std::move(found);
  if (index.is_string()) {
    if (auto found = find_attribute(runtime, object, index.bytes())) return *std::move(found);
  }
  return Value::undefined(missing_message(runtime.budget(), object, index));
}

Value get_slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  require_defined(object);
  if (object.is_string()) return slice_text(runtime.budget(), object.text(), start, stop, step);
  const bool sliceable = object.is_sequence() && (object.sequence().type == SequenceType::kList ||
                                                  object.sequence().type == SequenceType::kTuple ||
                                                  object.sequence().type == SequenceType::kRange);
  if (object.is_dict()) fail("unhashable type: 'slice'");
  if (!sliceable) return Value::undefined(fmt::format("{} can't be sliced", object_name(object)));
  const Sequence& sequence = object.sequence();
  Values items;
  for (const size_t i : slice_indices(runtime.budget(), sequence.items.size(), start, stop, step)) {
    items.push_back(sequence.items[i]);
  }
  const bool is_tuple = sequence.type == SequenceType::kTuple;
  return make_sequence(runtime.budget(), is_tuple ? SequenceType::kTuple : SequenceType::kList, std::move(items));
}

}  // namespace lockstep::chat::jinja
