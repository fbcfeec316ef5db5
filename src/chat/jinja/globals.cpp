// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/globals.h"

#include <algorithm>

#include "chat/jinja/arguments.h"
#include "chat/jinja/function.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/print.h"

namespace lockstep::chat::jinja {

namespace {

constexpr Int kMaxRange = 100'000;  // jinja2's sandbox has the same bound

Value range_function(Runtime& runtime, const Value&, const Args& args) {
  const Arguments given("range", args, {"start", "stop", "step"}, 1);
  const Int start = given.given(1) ? given.integer(0, 0) : 0;
  const Int stop = given.given(1) ? given.integer(1, 0) : given.integer(0, 0);
  const Int step = given.integer(2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  Values items;
  for (Int i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<Int>(items.size()) >= kMaxRange) fail_limit("range too big: at most 100000 items");
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  Value value = make_sequence(runtime.budget(), SequenceType::kRange, std::move(items));
  Int* bounds = value.sequence().range;
  bounds[0] = start;
  bounds[1] = stop;
  bounds[2] = step;
  return value;
}

/// dict(mapping or pairs, **more)
Dict dict_from(Runtime& runtime, const Args& args, std::string_view function) {
  if (args.positional.size() > 1) fail("{} expected at most 1 argument, got {}", function, args.positional.size());
  Dict dict;
  if (!args.positional.empty() && args.positional[0].is_dict()) {
    for (const auto& [key, value] : args.positional[0].dict().entries()) dict.set(key, value);
  } else if (!args.positional.empty()) {
    require_defined(args.positional[0]);
    for (const auto& item : iterate(runtime.budget(), args.positional[0])) {
      const Values pair = iterate(runtime.budget(), item);
      if (pair.size() != 2) fail("dictionary update sequence element has length {}; 2 is required", pair.size());
      dict.set(pair[0], pair[1]);
    }
  }
  for (const auto& [key, value] : args.named) dict.set(Value(key), value);
  return dict;
}

Value dict_function(Runtime& runtime, const Value&, const Args& args) {
  return make_dict(runtime.budget(), dict_from(runtime, args, "dict"));
}

Value namespace_function(Runtime& runtime, const Value&, const Args& args) {
  return runtime.make_namespace(dict_from(runtime, args, "namespace"));
}

Value lipsum_function(Runtime&, const Value&, const Args&) { fail("lipsum() is not supported"); }

Value raise_exception_function(Runtime& runtime, const Value&, const Args& args) {
  const Arguments given("raise_exception", args, {"message"}, 1);
  fail("{}", to_text(runtime.budget(), *given[0]).bytes);
}

/// A naive time has no zone, and the clock of ours no fractions: those directives are replaced beforehand.
std::string prepare_time_format(const std::string& format) {
  std::string prepared;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      prepared += format[i];
      continue;
    }
    const char directive = format[++i];
    if (directive == 'f') {
      prepared += "000000";
    } else if (directive != 'z' && directive != 'Z') {
      prepared += {'%', directive};
    }
  }
  return prepared;
}

Value strftime_now_function(Runtime& runtime, const Value&, const Args& args) {
  const Arguments given("strftime_now", args, {"format"}, 1);
  const Text& format = given.text(0);
  if (format.bytes.size() > 1000) fail_limit("strftime_now: the format is longer than 1000 bytes");
  const std::string prepared = prepare_time_format(format.bytes) + ' ';  // never empty, so that 0 means "no room"
  const std::tm time = runtime.now();
  std::string buffer(1 << 15, '\0');
  const size_t size = std::strftime(buffer.data(), buffer.size(), prepared.c_str(), &time);
  if (size == 0) fail("strftime_now: the format can't be used");
  TextBuilder builder(runtime.budget());
  builder.append(std::string_view(buffer).substr(0, size - 1), /*literal=*/!format.literal.empty());
  return Value(builder.finish());
}

class Joiner final : public Object {
 public:
  explicit Joiner(Text separator) : separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool callable() const override { return true; }
  Value call(Runtime&, Args args) override {
    const Arguments given("joiner", args, {});
    return std::exchange(used_, true) ? Value(separator_) : Value::string("");
  }

 private:
  Text separator_;
  bool used_ = false;
};

Value joiner_function(Runtime&, const Value&, const Args& args) {
  const Arguments given("joiner", args, {"sep"});
  Text separator;
  separator.bytes = ", ";
  return Value(ObjectPtr(std::make_shared<Joiner>(given.given(0) ? given.text(0) : separator)));
}

class Cycler final : public Object {
 public:
  explicit Cycler(Values items) : items_(std::move(items)) {
    int depth = 0;
    for (const auto& item : items_) depth = std::max(depth, item.depth());
    depth_ = checked_depth(depth);
  }
  std::string_view type_name() const override { return "Cycler"; }
  int depth() const override { return depth_; }
  std::optional<Value> attribute(Runtime&, std::string_view name) const override {
    const auto self = [this] { return Value(std::const_pointer_cast<Object>(shared_from_this())); };
    if (name == "current") return items_[position_];
    if (name == "pos") return Value(static_cast<Int>(position_));
    if (name == "next") return make_function("next", next_function, self());
    if (name == "reset") return make_function("reset", reset_function, self());
    return std::nullopt;
  }

 private:
  static Value next_function(Runtime&, const Value& self, const Args&) {
    auto& cycler = static_cast<Cycler&>(*self.object());
    Value value = cycler.items_[cycler.position_];
    cycler.position_ = (cycler.position_ + 1) % cycler.items_.size();
    return value;
  }
  static Value reset_function(Runtime&, const Value& self, const Args&) {
    static_cast<Cycler&>(*self.object()).position_ = 0;
    return Value();
  }

  Values items_;
  size_t position_ = 0;
  int depth_ = 1;
};

Value cycler_function(Runtime&, const Value&, const Args& args) {
  if (args.positional.empty()) fail("at least one item has to be provided");
  return Value(ObjectPtr(std::make_shared<Cycler>(args.positional)));
}

}  // namespace

void define_globals(Runtime& runtime) {
  runtime.define("range", make_function("range", range_function));
  runtime.define("dict", make_function("dict", dict_function));
  runtime.define("namespace", make_function("namespace", namespace_function));
  runtime.define("lipsum", make_function("lipsum", lipsum_function));
  runtime.define("cycler", make_function("cycler", cycler_function));
  runtime.define("joiner", make_function("joiner", joiner_function));
  runtime.define("raise_exception", make_function("raise_exception", raise_exception_function));
  runtime.define("strftime_now", make_function("strftime_now", strftime_now_function));
}

}  // namespace lockstep::chat::jinja
