// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/arguments.h"

#include <algorithm>

namespace lockstep::chat::jinja {

Arguments::Arguments(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
                     size_t required)
    : function_(function) {
  std::copy(names.begin(), names.end(), names_.begin());
  if (args.positional.size() > names.size()) {
    fail("{}() takes at most {} arguments, got {}", function, names.size(), args.positional.size());
  }
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto* found = std::find(names.begin(), names.end(), name->bytes);
    if (found == names.end()) fail("{}() got an unexpected keyword argument '{}'", function, name->bytes);
    const auto index = static_cast<size_t>(found - names.begin());
    if (values_[index] != nullptr) fail("{}() got multiple values for argument '{}'", function, name->bytes);
    values_[index] = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values_[i] == nullptr) fail("{}() misses the argument '{}'", function, names_[i]);
  }
}

void Arguments::fail_type(size_t index, std::string_view expected) const {
  const Value& value = *values_[index];
  if (value.is_undefined()) fail("{}", value.undefined_message());
  fail("{}(): argument '{}' must be {}, not {}", function_, names_[index], expected, type_name(value));
}

const Text& Arguments::text(size_t index) const {
  if (!values_[index]->is_string()) fail_type(index, "str");
  return values_[index]->text();
}

Int Arguments::integer(size_t index, Int otherwise) const {
  if (!given(index)) return otherwise;
  if (!values_[index]->is_integral()) fail_type(index, "int");
  return values_[index]->as_int();
}

bool Arguments::truth(size_t index, bool otherwise) const { return given(index) ? truthy(*values_[index]) : otherwise; }

}  // namespace lockstep::chat::jinja
