// SPDX-License-Identifier: Apache-2.0
// The methods of str that search, cut and join.
#include <algorithm>
#include <array>

#include "chat/jinja/operations.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/string_method_tables.h"

namespace lockstep::chat::jinja {

namespace {

/// text[start:end], as bytes and as the index of the first character.
struct Window {
  size_t begin = 0;
  size_t end = 0;
  Int first = 0;
  bool valid = true;  // false: the start lies behind the end
};

Window window(Budget& budget, const Text& self, const Arguments& args, size_t start_index) {
  const std::string& bytes = self.bytes;
  Window result{0, bytes.size(), 0, true};
  if (!args.set(start_index) && !args.set(start_index + 1)) return result;
  budget.bytes(bytes.size());
  const auto size = static_cast<Int>(count_characters(bytes));
  const auto clamp = [size](Int x) { return std::clamp(x < 0 ? x + size : x, Int{0}, size); };
  const Int start = args.set(start_index) ? args.integer(start_index, 0) : 0;
  const Int stop = args.set(start_index + 1) ? clamp(args.integer(start_index + 1, size)) : size;
  result.first = std::max(Int{0}, start < 0 ? start + size : start);
  result.valid = result.first <= stop;
  if (!result.valid) return result;
  result.begin = byte_of_character(bytes, static_cast<size_t>(result.first));
  result.end = byte_of_character(bytes, static_cast<size_t>(stop));
  return result;
}

std::string_view view(const Text& self, const Window& part) {
  return std::string_view(self.bytes).substr(part.begin, part.end - part.begin);
}

/// The index of a substring, or -1.
Int search(Runtime& runtime, const Text& self, const Args& args, bool from_right, std::string_view function) {
  const Arguments given(function, args, {"sub", "start", "end"}, 1);
  const Window part = window(runtime.budget(), self, given, 1);
  if (!part.valid) return -1;
  runtime.budget().bytes(self.bytes.size());
  const std::string_view text = view(self, part);
  const size_t found = from_right ? text.rfind(given.text(0).bytes) : text.find(given.text(0).bytes);
  if (found == std::string_view::npos) return -1;
  return part.first + static_cast<Int>(count_characters(text.substr(0, found)));
}

Value find_method(Runtime& runtime, const Text& self, const Args& args) {
  return Value(search(runtime, self, args, /*from_right=*/false, "find"));
}
Value rfind_method(Runtime& runtime, const Text& self, const Args& args) {
  return Value(search(runtime, self, args, /*from_right=*/true, "rfind"));
}
Value index_method(Runtime& runtime, const Text& self, const Args& args) {
  const Int found = search(runtime, self, args, /*from_right=*/false, "index");
  if (found < 0) fail("substring not found");
  return Value(found);
}
Value rindex_method(Runtime& runtime, const Text& self, const Args& args) {
  const Int found = search(runtime, self, args, /*from_right=*/true, "rindex");
  if (found < 0) fail("substring not found");
  return Value(found);
}

Value count_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("count", args, {"sub", "start", "end"}, 1);
  const Window part = window(runtime.budget(), self, given, 1);
  if (!part.valid) return Value::integer(0);
  runtime.budget().bytes(self.bytes.size());
  const std::string_view text = view(self, part);
  const std::string& wanted = given.text(0).bytes;
  if (wanted.empty()) return Value(static_cast<Int>(count_characters(text)) + 1);
  Int count = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos; at = text.find(wanted, at + wanted.size())) ++count;
  return Value(count);
}

bool has_affix(std::string_view text, const Value& affix, bool at_start, std::string_view function) {
  if (affix.is_sequence() && affix.sequence().type == SequenceType::kTuple) {
    const Values& choices = affix.sequence().items;
    return std::any_of(choices.begin(), choices.end(),
                       [&](const Value& choice) { return has_affix(text, choice, at_start, function); });
  }
  require_defined(affix);
  if (!affix.is_string()) {
    fail("{} first arg must be str or a tuple of str, not {}", function, type_name(affix));
  }
  return at_start ? text.starts_with(affix.bytes()) : text.ends_with(affix.bytes());
}

Value affix_method(Runtime& runtime, const Text& self, const Args& args, bool at_start) {
  const std::string_view function = at_start ? "startswith" : "endswith";
  const Arguments given(function, args, {"prefix", "start", "end"}, 1);
  const Window part = window(runtime.budget(), self, given, 1);
  return Value(part.valid && has_affix(view(self, part), *given[0], at_start, function));
}
Value startswith_method(Runtime& runtime, const Text& self, const Args& args) {
  return affix_method(runtime, self, args, /*at_start=*/true);
}
Value endswith_method(Runtime& runtime, const Text& self, const Args& args) {
  return affix_method(runtime, self, args, /*at_start=*/false);
}

Value strip_method(Runtime& runtime, const Text& self, const Args& args, bool left, bool right) {
  const Arguments given("strip", args, {"chars"});
  return Value(strip(runtime.budget(), self, given.set(0) ? &given.text(0) : nullptr, left, right));
}
Value strip_both(Runtime& runtime, const Text& self, const Args& args) {
  return strip_method(runtime, self, args, /*left=*/true, /*right=*/true);
}
Value strip_left(Runtime& runtime, const Text& self, const Args& args) {
  return strip_method(runtime, self, args, /*left=*/true, /*right=*/false);
}
Value strip_right(Runtime& runtime, const Text& self, const Args& args) {
  return strip_method(runtime, self, args, /*left=*/false, /*right=*/true);
}

Value split_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("split", args, {"sep", "maxsplit"});
  const Text* separator = given.set(0) ? &given.text(0) : nullptr;
  return make_list(runtime.budget(), split(runtime.budget(), self, separator, given.integer(1, -1)));
}
Value rsplit_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("rsplit", args, {"sep", "maxsplit"});
  const Text* separator = given.set(0) ? &given.text(0) : nullptr;
  return make_list(runtime.budget(), split_right(runtime.budget(), self, separator, given.integer(1, -1)));
}
Value splitlines_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("splitlines", args, {"keepends"});
  return make_list(runtime.budget(), split_lines(runtime.budget(), self, given.truth(0, false)));
}

Value partition_method(Runtime& runtime, const Text& self, const Args& args, bool from_right) {
  const Arguments given("partition", args, {"sep"}, 1);
  const Text& separator = given.text(0);
  if (separator.bytes.empty()) fail("empty separator");
  Budget& budget = runtime.budget();
  const size_t size = self.bytes.size();
  const size_t found = from_right ? self.bytes.rfind(separator.bytes) : self.bytes.find(separator.bytes);
  Values parts;
  if (found == std::string::npos) {
    parts = {Value(self), Value::string(""), Value::string("")};
    if (from_right) std::swap(parts[0], parts[2]);
  } else {
    const size_t behind = found + separator.bytes.size();
    parts.emplace_back(slice_bytes(budget, self, 0, found));
    parts.emplace_back(slice_bytes(budget, self, found, behind));
    parts.emplace_back(slice_bytes(budget, self, behind, size));
  }
  return make_tuple(budget, std::move(parts));
}
Value partition_left(Runtime& runtime, const Text& self, const Args& args) {
  return partition_method(runtime, self, args, /*from_right=*/false);
}
Value partition_right(Runtime& runtime, const Text& self, const Args& args) {
  return partition_method(runtime, self, args, /*from_right=*/true);
}

Value replace_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("replace", args, {"old", "new", "count"}, 2);
  return Value(replace(runtime.budget(), self, given.text(0), given.text(1), given.integer(2, -1)));
}

Value join_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("join", args, {"iterable"}, 1);
  return Value(join(runtime.budget(), self, iterate(runtime.budget(), *given[0]), /*convert=*/false));
}

Value removeprefix_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("removeprefix", args, {"prefix"}, 1);
  const std::string& prefix = given.text(0).bytes;
  const size_t begin = self.bytes.starts_with(prefix) ? prefix.size() : 0;
  return Value(slice_bytes(runtime.budget(), self, begin, self.bytes.size()));
}
Value removesuffix_method(Runtime& runtime, const Text& self, const Args& args) {
  const Arguments given("removesuffix", args, {"suffix"}, 1);
  const std::string& suffix = given.text(0).bytes;
  const size_t cut = self.bytes.ends_with(suffix) ? suffix.size() : 0;
  return Value(slice_bytes(runtime.budget(), self, 0, self.bytes.size() - cut));
}

constexpr std::array kMethods = {
    StringMethodEntry{"count", count_method},
    StringMethodEntry{"endswith", endswith_method},
    StringMethodEntry{"find", find_method},
    StringMethodEntry{"index", index_method},
    StringMethodEntry{"join", join_method},
    StringMethodEntry{"lstrip", strip_left},
    StringMethodEntry{"partition", partition_left},
    StringMethodEntry{"removeprefix", removeprefix_method},
    StringMethodEntry{"removesuffix", removesuffix_method},
    StringMethodEntry{"replace", replace_method},
    StringMethodEntry{"rfind", rfind_method},
    StringMethodEntry{"rindex", rindex_method},
    StringMethodEntry{"rpartition", partition_right},
    StringMethodEntry{"rsplit", rsplit_method},
    StringMethodEntry{"rstrip", strip_right},
    StringMethodEntry{"split", split_method},
    StringMethodEntry{"splitlines", splitlines_method},
    StringMethodEntry{"startswith", startswith_method},
    StringMethodEntry{"strip", strip_both},
};

}  // namespace

std::span<const StringMethodEntry> search_methods() { return kMethods; }

StringMethod find_string_method(std::string_view name) {
  for (const auto table : {search_methods(), style_methods()}) {
    const auto found =
        std::find_if(table.begin(), table.end(), [name](const auto& entry) { return entry.name == name; });
    if (found != table.end()) return found->method;
  }
  return nullptr;
}

}  // namespace lockstep::chat::jinja
