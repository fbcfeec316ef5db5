// SPDX-License-Identifier: Apache-2.0
// The values of a template: Python's, as far as a sandboxed template can see them. Immutable, except for the objects
// that are meant to change (namespace, loop, joiner, cycler, iterators).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "chat/jinja/text.h"

namespace lockstep::chat::jinja {

class Runtime;
class Value;
struct Sequence;
class Dict;
class Object;

/// Python's integers have no bounds; 128 bits hold whatever a template computes. Overflow is an error, never a wrap.
using Int = __int128;

using TextPtr = std::shared_ptr<const Text>;
using SequencePtr = std::shared_ptr<Sequence>;
using DictPtr = std::shared_ptr<const Dict>;
using ObjectPtr = std::shared_ptr<Object>;

/// jinja2's default Undefined: prints nothing, is false and empty; anything else done with it fails with `message`.
struct Undefined {
  std::shared_ptr<const std::string> message;
};
struct None {};

enum class Kind { kUndefined, kNone, kBool, kInt, kFloat, kString, kSequence, kDict, kObject };

class Value {
 public:
  Value() : data_(None{}) {}
  explicit Value(bool x) : data_(x) {}
  explicit Value(Int x) : data_(x) {}
  explicit Value(double x) : data_(x) {}
  explicit Value(TextPtr x) : data_(std::move(x)) {}
  explicit Value(Text x) : data_(TextPtr(std::make_shared<const Text>(std::move(x)))) {}
  explicit Value(SequencePtr x) : data_(std::move(x)) {}
  explicit Value(DictPtr x) : data_(std::move(x)) {}
  explicit Value(ObjectPtr x) : data_(std::move(x)) {}
  static Value undefined(std::string message);
  static Value integer(int64_t x) { return Value(Int{x}); }
  /// A string of the interpreter's own.
  static Value string(std::string_view bytes);

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_none() const { return kind() == Kind::kNone; }
  bool is_bool() const { return kind() == Kind::kBool; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_sequence() const { return kind() == Kind::kSequence; }
  bool is_dict() const { return kind() == Kind::kDict; }
  bool is_object() const { return kind() == Kind::kObject; }
  /// bool, int: what Python lets stand for an integer.
  bool is_integral() const { return kind() == Kind::kInt || kind() == Kind::kBool; }
  bool is_number() const { return is_integral() || kind() == Kind::kFloat; }

  // The getters below need the matching kind.
  bool as_bool() const { return std::get<bool>(data_); }
  Int as_int() const { return kind() == Kind::kBool ? Int{as_bool()} : std::get<Int>(data_); }
  double as_float() const { return std::get<double>(data_); }
  /// Any number, rounded to double.
  double to_double() const { return kind() == Kind::kFloat ? as_float() : static_cast<double>(as_int()); }
  const Text& text() const { return *std::get<TextPtr>(data_); }
  const TextPtr& text_ptr() const { return std::get<TextPtr>(data_); }
  const std::string& bytes() const { return text().bytes; }
  Sequence& sequence() const { return *std::get<SequencePtr>(data_); }
  const Dict& dict() const { return *std::get<DictPtr>(data_); }
  const DictPtr& dict_ptr() const { return std::get<DictPtr>(data_); }
  const ObjectPtr& object() const { return std::get<ObjectPtr>(data_); }
  const std::string& undefined_message() const { return *std::get<Undefined>(data_).message; }

  /// Values inside values: 0 for a scalar. Bounded (see checked_depth), so that no recursion over a value overflows.
  int depth() const;

 private:
  std::variant<Undefined, None, bool, Int, double, TextPtr, SequencePtr, DictPtr, ObjectPtr> data_;
};

using Values = std::vector<Value>;

enum class SequenceType { kList, kTuple, kRange, kKeys, kValues, kItems, kIterator };

/// list, tuple, range, the views of a dict, and iterators (which map, select and their kin give; they can be read
/// once).
struct Sequence {
  SequenceType type = SequenceType::kList;
  Values items;
  int depth = 1;
  size_t next = 0;           ///< kIterator: the first item that has not been read
  Int range[3] = {0, 0, 1};  ///< kRange: start, stop, step
  const char* iterator_name = "generator";
};

class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }
  /// Null when the key isn't there. An unhashable key is an error.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  /// Replaces the value of a key that is there already.
  void set(const Value& key, Value value);

 private:
  std::optional<size_t> position(const std::string& hash_key) const;

  std::vector<Entry> entries_;
  std::unordered_map<std::string, size_t> index_;
  int depth_ = 1;
};

/// Arguments of a call.
struct Args {
  Values positional;
  std::vector<std::pair<TextPtr, Value>> named;
};

/// Something with identity: a function, a macro, `loop`, a namespace.
class Object : public std::enable_shared_from_this<Object> {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  virtual std::string_view type_name() const = 0;
  /// What it prints as.
  virtual void append_repr(TextBuilder& out) const;
  virtual bool callable() const { return false; }
  virtual Value call(Runtime& runtime, Args args);
  virtual std::optional<Value> attribute(Runtime& runtime, std::string_view name) const;
  virtual int depth() const { return 0; }
};

/// `depth` + 1 levels, or an error when that is more than a value may have.
int checked_depth(int depth);

/// Charges the budget an item each.
Value make_sequence(Budget& budget, SequenceType type, Values items);
inline Value make_list(Budget& budget, Values items) {
  return make_sequence(budget, SequenceType::kList, std::move(items));
}
inline Value make_tuple(Budget& budget, Values items) {
  return make_sequence(budget, SequenceType::kTuple, std::move(items));
}
/// `name` must be a literal.
Value make_iterator(Budget& budget, Values items, const char* name = "generator");
Value make_dict(Budget& budget, Dict dict);

/// Equal keys (1, 1.0 and true among them) have equal strings; false for what Python can't hash.
bool hash_key(const Value& key, std::string& out);

/// "str", "int", "list", ...: Python's type names.
std::string_view type_name(const Value& value);
/// How jinja2 names an object in "X has no attribute Y": "dict object", "None".
std::string object_name(const Value& value);

bool truthy(const Value& value);
/// Python's ==.
bool equal(Budget& budget, const Value& a, const Value& b);
bool holds_object(const Value& value);

}  // namespace lockstep::chat::jinja
