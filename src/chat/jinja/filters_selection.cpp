// SPDX-License-Identifier: Apache-2.0
// map, select, reject, selectattr, rejectattr.
#include <array>

#include "chat/jinja/filter_tables.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/predicates.h"
#include "chat/jinja/runtime.h"

namespace lockstep::chat::jinja {

namespace {

/// The arguments behind the first `count` ones.
Args rest_of(const Args& args, size_t count) {
  Args rest;
  rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(count), args.positional.end());
  rest.named = args.named;
  return rest;
}

std::string name_argument(const Args& args, size_t index, std::string_view what) {
  const Value& name = args.positional[index];
  if (!name.is_string()) fail("the name of a {} must be a string, not {}", what, type_name(name));
  return name.bytes();
}

Values map_attribute(Runtime& runtime, Values items, const Args& args) {
  const Value* attribute = nullptr;
  const Value* otherwise = nullptr;
  for (const auto& [key, value] : args.named) {
    if (key->bytes == "attribute") {
      attribute = &value;
    } else if (key->bytes == "default") {
      otherwise = value.is_none() ? nullptr : &value;
    } else {
      fail("Unexpected keyword argument '{}'", key->bytes);
    }
  }
  if (attribute == nullptr) fail("map requires a filter argument");
  for (auto& item : items) item = attribute_path(runtime, item, *attribute, otherwise);
  return items;
}

Value map_filter(Runtime& runtime, const Value& target, const Args& args) {
  if (!truthy(target)) return make_iterator(runtime.budget(), {});
  Values items = iterate(runtime.budget(), target);
  if (args.positional.empty()) return make_iterator(runtime.budget(), map_attribute(runtime, std::move(items), args));
  const std::string name = name_argument(args, 0, "filter");
  const FilterFunction function = find_filter(name);
  if (function == nullptr) fail("No filter named '{}'.", name);
  const Args rest = rest_of(args, 1);
  const Runtime::Depth depth(runtime);  // map('map', 'map', ...) nests
  for (auto& item : items) {
    runtime.budget().step();
    item = function(runtime, item, rest);
  }
  return make_iterator(runtime.budget(), std::move(items));
}

Value choose(Runtime& runtime, const Value& target, const Args& args, bool keep, bool by_attribute) {
  if (!truthy(target)) return make_iterator(runtime.budget(), {});
  const size_t first = by_attribute ? 1 : 0;
  if (args.positional.size() < first) fail("Missing parameter for attribute name");
  TestFunction test = nullptr;
  Args rest;
  if (args.positional.size() > first) {
    const std::string name = name_argument(args, first, "test");
    test = find_predicate(name);
    if (test == nullptr) fail("No test named '{}'.", name);
    rest = rest_of(args, first + 1);
  }
  Values kept;
  for (auto& item : iterate(runtime.budget(), target)) {
    runtime.budget().step();
    const Value subject = by_attribute ? attribute_path(runtime, item, args.positional[0]) : item;
    const bool passes = test == nullptr ? truthy(subject) : test(runtime, subject, rest);
    if (passes == keep) kept.push_back(std::move(item));
  }
  return make_iterator(runtime.budget(), std::move(kept));
}

Value select_filter(Runtime& runtime, const Value& target, const Args& args) {
  return choose(runtime, target, args, /*keep=*/true, /*by_attribute=*/false);
}
Value reject_filter(Runtime& runtime, const Value& target, const Args& args) {
  return choose(runtime, target, args, /*keep=*/false, /*by_attribute=*/false);
}
Value selectattr_filter(Runtime& runtime, const Value& target, const Args& args) {
  return choose(runtime, target, args, /*keep=*/true, /*by_attribute=*/true);
}
Value rejectattr_filter(Runtime& runtime, const Value& target, const Args& args) {
  return choose(runtime, target, args, /*keep=*/false, /*by_attribute=*/true);
}

constexpr std::array kFilters = {
    FilterEntry{"map", map_filter},
    FilterEntry{"reject", reject_filter},
    FilterEntry{"rejectattr", rejectattr_filter},
    FilterEntry{"select", select_filter},
    FilterEntry{"selectattr", selectattr_filter},
};

}  // namespace

std::span<const FilterEntry> selection_filters() { return kFilters; }

}  // namespace lockstep::chat::jinja
