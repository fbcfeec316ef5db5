// SPDX-License-Identifier: Apache-2.0
// Filters on sequences and dicts.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "chat/jinja/access.h"
#include "chat/jinja/arguments.h"
#include "chat/jinja/filter_tables.h"
#include "chat/jinja/number.h"
#include "chat/jinja/operations.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/string_methods.h"

namespace lockstep::chat::jinja {

namespace {

Value length_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("length", args, {});
  const auto size = length(runtime.budget(), target);
  if (!size) fail("object of type '{}' has no len()", type_name(target));
  return Value(static_cast<Int>(*size));
}

Value list_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("list", args, {});
  return make_list(runtime.budget(), iterate(runtime.budget(), target));
}

Value items_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("items", args, {});
  Values items;
  if (!target.is_undefined()) {
    if (!target.is_dict()) fail("Can only get item pairs from a mapping.");
    for (const auto& [key, value] : target.dict().entries())
      items.push_back(make_tuple(runtime.budget(), {key, value}));
  }
  return make_iterator(runtime.budget(), std::move(items));
}

Value first_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("first", args, {});
  if (target.is_sequence() && target.sequence().type == SequenceType::kIterator) {
    Sequence& sequence = target.sequence();  // takes one item out of it
    if (sequence.next < sequence.items.size()) return sequence.items[sequence.next++];
    return Value::undefined("No first item, sequence was empty.");
  }
  const Values items = iterate(runtime.budget(), target);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

bool is_reversible(const Value& value) {
  if (value.is_string() || value.is_dict()) return true;
  return value.is_sequence() && value.sequence().type != SequenceType::kIterator;
}

Value last_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("last", args, {});
  if (!is_reversible(target)) {
    if (!target.is_undefined()) fail("'{}' object is not reversible", type_name(target));
  }
  const Values items = iterate(runtime.budget(), target);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value reverse_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("reverse", args, {});
  if (target.is_string()) return get_slice(runtime, target, Value(), Value(), Value(Int{-1}));
  Values items = iterate(runtime.budget(), target);
  std::reverse(items.begin(), items.end());
  return is_reversible(target) ? make_iterator(runtime.budget(), std::move(items), "list_reverseiterator")
                               : make_list(runtime.budget(), std::move(items));
}

/// Items with the keys that they are sorted by. std::stable_sort wants a strict order, which `less` on mixed values
/// need not be; a merge that only compares neighbours stays within its range whatever the answers are.
using Keyed = std::pair<Value, Value>;

void merge_sort(Budget& budget, std::vector<Keyed>& items, std::vector<Keyed>& scratch, size_t begin, size_t end,
                bool reverse) {
  if (end - begin < 2) return;
  const size_t middle = begin + (end - begin) / 2;
  merge_sort(budget, items, scratch, begin, middle, reverse);
  merge_sort(budget, items, scratch, middle, end, reverse);
  size_t left = begin;
  size_t right = middle;
  for (size_t out = begin; out < end; ++out) {
    const bool right_wins =
        left == middle || (right < end && (reverse ? less(budget, items[left].first, items[right].first)
                                                   : less(budget, items[right].first, items[left].first)));
    scratch[out] = std::move(items[right_wins ? right++ : left++]);
  }
  std::move(scratch.begin() + static_cast<std::ptrdiff_t>(begin), scratch.begin() + static_cast<std::ptrdiff_t>(end),
            items.begin() + static_cast<std::ptrdiff_t>(begin));
}

void sort_keyed(Budget& budget, std::vector<Keyed>& items, bool reverse) {
  std::vector<Keyed> scratch(items.size());
  merge_sort(budget, items, scratch, 0, items.size(), reverse);
}

/// The key of one or more comma-separated attributes.
Value sort_key(Runtime& runtime, const Value& item, const Value* attribute, bool case_sensitive) {
  Budget& budget = runtime.budget();
  Values paths = {attribute == nullptr ? Value() : *attribute};
  if (paths[0].is_string()) {
    Text comma;
    comma.bytes = ",";
    paths = split(budget, paths[0].text(), &comma, -1);
  }
  Values keys;
  for (const auto& path : paths) {
    Value key = attribute_path(runtime, item, path);
    keys.push_back(case_sensitive ? std::move(key) : fold_case(budget, key));
  }
  return make_list(budget, std::move(keys));
}

Value sort_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("sort", args, {"reverse", "case_sensitive", "attribute"});
  std::vector<Keyed> keyed;
  for (auto& item : iterate(runtime.budget(), target)) {
    Value key = sort_key(runtime, item, given[2], given.truth(1, false));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  sort_keyed(runtime.budget(), keyed, given.truth(0, false));
  Values sorted;
  for (auto& entry : keyed) sorted.push_back(std::move(entry.second));
  return make_list(runtime.budget(), std::move(sorted));
}

Value dictsort_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("dictsort", args, {"case_sensitive", "by", "reverse"});
  Budget& budget = runtime.budget();
  require_defined(target);
  if (!target.is_dict()) fail("dictsort needs a mapping, not {}", type_name(target));
  const std::string by = given.given(1) ? given.text(1).bytes : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : target.dict().entries()) {
    const Value& chosen = by == "key" ? key : value;
    keyed.emplace_back(given.truth(0, false) ? chosen : fold_case(budget, chosen), make_tuple(budget, {key, value}));
  }
  sort_keyed(budget, keyed, given.truth(2, false));
  Values sorted;
  for (auto& entry : keyed) sorted.push_back(std::move(entry.second));
  return make_list(budget, std::move(sorted));
}

Value unique_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("unique", args, {"case_sensitive", "attribute"});
  Budget& budget = runtime.budget();
  std::unordered_set<std::string> seen;
  Values kept;
  for (auto& item : iterate(budget, target)) {
    Value key = attribute_path(runtime, item, given.given(1) ? *given[1] : Value());
    if (!given.truth(0, false)) key = fold_case(budget, key);
    std::string hashed;
    if (!hash_key(key, hashed)) fail("unhashable type: '{}'", type_name(key));
    if (seen.insert(std::move(hashed)).second) kept.push_back(std::move(item));
  }
  return make_iterator(budget, std::move(kept));
}

Value extreme(Runtime& runtime, const Value& target, const Args& args, bool greatest) {
  const Arguments given(greatest ? "max" : "min", args, {"case_sensitive", "attribute"});
  Budget& budget = runtime.budget();
  const Values items = iterate(budget, target);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const Value* best = nullptr;
  Value best_key;
  for (const auto& item : items) {
    Value key = attribute_path(runtime, item, given.given(1) ? *given[1] : Value());
    if (!given.truth(0, false)) key = fold_case(budget, key);
    if (best != nullptr && !(greatest ? less(budget, best_key, key) : less(budget, key, best_key))) continue;
    best = &item;
    best_key = std::move(key);
  }
  return *best;
}
Value max_filter(Runtime& runtime, const Value& target, const Args& args) {
  return extreme(runtime, target, args, /*greatest=*/true);
}
Value min_filter(Runtime& runtime, const Value& target, const Args& args) {
  return extreme(runtime, target, args, /*greatest=*/false);
}

Value sum_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("sum", args, {"attribute", "start"});
  Value total = given.given(1) ? *given[1] : Value(Int{0});
  if (total.is_string()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  for (const auto& item : iterate(runtime.budget(), target)) {
    const Value term = given.set(0) ? attribute_path(runtime, item, *given[0]) : item;
    total = binary(runtime.budget(), BinaryOperator::kAdd, total, term);
  }
  return total;
}

Value batch_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("batch", args, {"linecount", "fill_with"}, 1);
  Budget& budget = runtime.budget();
  const Int wanted = given.integer(0, 1);
  Values rows;
  Values row;
  for (auto& item : iterate(budget, target)) {
    if (static_cast<Int>(row.size()) == wanted) rows.push_back(make_list(budget, std::exchange(row, {})));
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (given.set(1) && wanted > budget.limits().max_steps) fail_limit("batch makes too long a row");
    while (given.set(1) && static_cast<Int>(row.size()) < wanted) {
      budget.step();
      row.push_back(*given[1]);
    }
    rows.push_back(make_list(budget, std::move(row)));
  }
  return make_iterator(budget, std::move(rows));
}

Value slice_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("slice", args, {"slices", "fill_with"}, 1);
  Budget& budget = runtime.budget();
  const Values items = iterate(budget, target);
  const Int slices = given.integer(0, 1);
  if (slices == 0) fail("integer division or modulo by zero");
  if (slices > budget.limits().max_steps) fail_limit("slice makes too many slices");
  Values columns;
  size_t at = 0;
  for (Int i = 0; i < slices; ++i) {
    const bool longer = i < static_cast<Int>(items.size()) % slices;
    const size_t count = static_cast<size_t>(static_cast<Int>(items.size()) / slices) + (longer ? 1 : 0);
    Values column(items.begin() + static_cast<std::ptrdiff_t>(at),
                  items.begin() + static_cast<std::ptrdiff_t>(at + count));
    if (given.set(1) && !longer) column.push_back(*given[1]);
    columns.push_back(make_list(budget, std::move(column)));
    at += count;
  }
  return make_iterator(budget, std::move(columns));
}

Value groupby_filter(Runtime& runtime, const Value& target, const Args& args) {
  const Arguments given("groupby", args, {"attribute", "default", "case_sensitive"}, 1);
  Budget& budget = runtime.budget();
  const Value* otherwise = given.set(1) ? given[1] : nullptr;
  const bool case_sensitive = given.truth(2, false);
  std::vector<Keyed> keyed;
  for (auto& item : iterate(budget, target)) {
    Value key = attribute_path(runtime, item, *given[0], otherwise);
    keyed.emplace_back(case_sensitive ? std::move(key) : fold_case(budget, key), std::move(item));
  }
  sort_keyed(budget, keyed, /*reverse=*/false);
  Values groups;
  for (size_t begin = 0; begin < keyed.size();) {
    Values members;
    size_t end = begin;
    for (; end < keyed.size() && equal(budget, keyed[end].first, keyed[begin].first); ++end) {
      members.push_back(keyed[end].second);
    }
    if (end == begin) ++end;  // NaN isn't equal to itself
    Value name =
        case_sensitive ? keyed[begin].first : attribute_path(runtime, keyed[begin].second, *given[0], otherwise);
    groups.push_back(make_tuple(budget, {std::move(name), make_list(budget, std::move(members))}));
    begin = end;
  }
  return make_list(budget, std::move(groups));
}

constexpr std::array kFilters = {
    FilterEntry{"batch", batch_filter},       FilterEntry{"count", length_filter},
    FilterEntry{"dictsort", dictsort_filter}, FilterEntry{"first", first_filter},
    FilterEntry{"groupby", groupby_filter},   FilterEntry{"items", items_filter},
    FilterEntry{"last", last_filter},         FilterEntry{"length", length_filter},
    FilterEntry{"list", list_filter},         FilterEntry{"max", max_filter},
    FilterEntry{"min", min_filter},           FilterEntry{"reverse", reverse_filter},
    FilterEntry{"slice", slice_filter},       FilterEntry{"sort", sort_filter},
    FilterEntry{"sum", sum_filter},           FilterEntry{"unique", unique_filter},
};

}  // namespace

std::span<const FilterEntry> sequence_filters() { return kFilters; }

Value fold_case(Budget& budget, const Value& value) {
  return value.is_string() ? Value(change_case(budget, value.text(), Case::kLower)) : value;
}

Value attribute_path(Runtime& runtime, const Value& item, const Value& path, const Value* otherwise) {
  if (path.is_none()) return item;
  Value value = item;
  const auto take = [&](const Value& part) {
    value = get_item(runtime, value, part);
    if (otherwise != nullptr && value.is_undefined()) value = *otherwise;
  };
  if (!path.is_string()) {
    take(path);
    return value;
  }
  Text dot;
  dot.bytes = ".";
  for (const auto& part : split(runtime.budget(), path.text(), &dot, -1)) {
    const std::string& name = part.bytes();
    const bool digits = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
    take(digits ? Value(parse_int(name, 10).value_or(0)) : part);
  }
  return value;
}

}  // namespace lockstep::chat::jinja
