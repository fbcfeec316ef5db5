// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "chat/jinja/number.h"

namespace lockstep::chat::jinja {

namespace {

constexpr int kMaxValueDepth = 250;
constexpr size_t kIndexFrom = 8;  // smaller dicts are searched item by item

void hash_double(double x, std::string& out) {
  Int whole = 0;
  if (double_to_int(x, whole) && static_cast<double>(whole) == x) {
    out += 'i' + int_to_string(whole);
  } else {
    out += 'f' + float_repr(x);
  }
}

bool equal_sequences(Budget& budget, const Sequence& a, const Sequence& b) {
  if (a.type != b.type || a.type == SequenceType::kIterator) return &a == &b;
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!equal(budget, a.items[i], b.items[i])) return false;
  }
  return true;
}

bool equal_dicts(Budget& budget, const Dict& a, const Dict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(budget, value, *other)) return false;
  }
  return true;
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
  if (a.kind() == Kind::kFloat && b.kind() == Kind::kFloat) return a.as_float() == b.as_float();
  const double x = a.kind() == Kind::kFloat ? a.as_float() : b.as_float();
  const Int whole = a.kind() == Kind::kFloat ? b.as_int() : a.as_int();
  Int rounded = 0;
  return double_to_int(x, rounded) && static_cast<double>(rounded) == x && rounded == whole;
}

}  // namespace

Value Value::undefined(std::string message) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(message))};
  return value;
}

Value Value::string(std::string_view bytes) {
  Text text;
  text.bytes = bytes;
  return Value(std::move(text));
}

int Value::depth() const {
  switch (kind()) {
    case Kind::kSequence:
      return sequence().depth;
    case Kind::kDict:
      return dict().depth();
    case Kind::kObject:
      return object()->depth();
    default:
      return 0;
  }
}

int checked_depth(int depth) {
  if (depth >= kMaxValueDepth) fail_limit("values are nested more than {} deep", kMaxValueDepth);
  return depth + 1;
}

Value make_sequence(Budget& budget, SequenceType type, Values items) {
  budget.step(items.size());
  budget.bytes((items.size() + 2) * sizeof(Value));
  auto sequence = std::make_shared<Sequence>();
  int depth = 0;
  for (const auto& item : items) depth = std::max(depth, item.depth());
  sequence->type = type;
  sequence->items = std::move(items);
  sequence->depth = checked_depth(depth);
  return Value(std::move(sequence));
}

Value make_iterator(Budget& budget, Values items, const char* name) {
  Value value = make_sequence(budget, SequenceType::kIterator, std::move(items));
  value.sequence().iterator_name = name;
  return value;
}

Value make_dict(Budget& budget, Dict dict) {
  budget.step(dict.size());
  budget.bytes((dict.size() + 2) * 2 * sizeof(Value));
  return Value(DictPtr(std::make_shared<const Dict>(std::move(dict))));
}

std::optional<size_t> Dict::position(const std::string& wanted) const {
  if (entries_.size() >= kIndexFrom) {
    const auto found = index_.find(wanted);
    return found == index_.end() ? std::nullopt : std::optional(found->second);
  }
  std::string key;
  for (size_t i = 0; i < entries_.size(); ++i) {
    key.clear();
    if (hash_key(entries_[i].first, key) && key == wanted) return i;
  }
  return std::nullopt;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_string()) return find(std::string_view(key.bytes()));
  std::string wanted;
  if (!hash_key(key, wanted)) fail("unhashable type: '{}'", type_name(key));
  const auto found = position(wanted);
  return found ? &entries_[*found].second : nullptr;
}

const Value* Dict::find(std::string_view key) const {
  if (entries_.size() < kIndexFrom) {
    for (const auto& [name, value] : entries_) {
      if (name.is_string() && name.bytes() == key) return &value;
    }
    return nullptr;
  }
  const auto found = index_.find('s' + std::string(key));
  return found == index_.end() ? nullptr : &entries_[found->second].second;
}

void Dict::set(const Value& key, Value value) {
  std::string wanted;
  if (!hash_key(key, wanted)) fail("unhashable type: '{}'", type_name(key));
  depth_ = std::max(depth_, checked_depth(std::max(key.depth(), value.depth())));
  if (const auto found = position(wanted)) {
    entries_[*found].second = std::move(value);
    return;
  }
  entries_.emplace_back(key, std::move(value));
  if (entries_.size() < kIndexFrom) return;
  if (entries_.size() > kIndexFrom) {
    index_.emplace(std::move(wanted), entries_.size() - 1);
    return;
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    std::string name;
    hash_key(entries_[i].first, name);
    index_.emplace(std::move(name), i);
  }
}

bool hash_key(const Value& key, std::string& out) {
  switch (key.kind()) {
    case Kind::kUndefined:
      out += 'u';
      return true;
    case Kind::kNone:
      out += 'n';
      return true;
    case Kind::kBool:
    case Kind::kInt:
      out += 'i' + int_to_string(key.as_int());
      return true;
    case Kind::kFloat:
      hash_double(key.as_float(), out);
      return true;
    case Kind::kString:
      out += 's' + key.bytes();
      return true;
    case Kind::kSequence:
      if (key.sequence().type != SequenceType::kTuple && key.sequence().type != SequenceType::kRange) return false;
      if (key.sequence().type == SequenceType::kRange) out += 'r';
      for (const auto& item : key.sequence().items) {
        std::string part;
        if (!hash_key(item, part)) return false;
        out += 't' + std::to_string(part.size()) + ':' + part;
      }
      out += ')';
      return true;
    case Kind::kObject:
      out += fmt::format("o{}", static_cast<const void*>(key.object().get()));
      return true;
    case Kind::kDict:
      return false;
  }
  return false;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return value.object()->type_name();
    case Kind::kSequence:
      break;
  }
  switch (value.sequence().type) {
    case SequenceType::kList:
      return "list";
    case SequenceType::kTuple:
      return "tuple";
    case SequenceType::kRange:
      return "range";
    case SequenceType::kKeys:
      return "dict_keys";
    case SequenceType::kValues:
      return "dict_values";
    case SequenceType::kItems:
      return "dict_items";
    case SequenceType::kIterator:
      return value.sequence().iterator_name;
  }
  return "object";
}

std::string object_name(const Value& value) {
  if (value.is_none()) return "None";
  return std::string(type_name(value)) + " object";
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_float() != 0.0;
    case Kind::kString:
      return !value.bytes().empty();
    case Kind::kSequence:
      return value.sequence().type == SequenceType::kIterator || !value.sequence().items.empty();
    case Kind::kDict:
      return value.dict().size() != 0;
    case Kind::kObject:
      return true;
  }
  return false;
}

bool equal(Budget& budget, const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kString:
      return a.bytes() == b.bytes();
    case Kind::kSequence:
      return equal_sequences(budget, a.sequence(), b.sequence());
    case Kind::kDict:
      return equal_dicts(budget, a.dict(), b.dict());
    case Kind::kObject:
      return a.object() == b.object();
    default:
      return true;  // both undefined, both none
  }
}

bool holds_object(const Value& value) {
  if (value.is_object()) return true;
  if (value.is_sequence()) {
    const auto& items = value.sequence().items;
    return std::any_of(items.begin(), items.end(), holds_object);
  }
  if (value.is_dict()) {
    const auto& entries = value.dict().entries();
    return std::any_of(entries.begin(), entries.end(),
                       [](const Dict::Entry& entry) { return holds_object(entry.second); });
  }
  return false;
}

void Object::append_repr(TextBuilder& out) const { out.append(fmt::format("<{}>", type_name())); }

Value Object::call(Runtime&, Args) { fail("'{}' object is not callable", type_name()); }

std::optional<Value> Object::attribute(Runtime&, std::string_view) const { return std::nullopt; }

}  // namespace lockstep::chat::jinja
