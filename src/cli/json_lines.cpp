// SPDX-License-Identifier: Apache-2.0
#include "cli/json_lines.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace lockstep::cli {
namespace {

using nlohmann::ordered_json;

Expected<ordered_json> parse_object(const std::string& line) {
  ordered_json parsed = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return invalid_argument("the line is not valid JSON");
  if (!parsed.is_object()) return invalid_argument("the line is a JSON {}, not an object", parsed.type_name());
  return parsed;
}

}  // namespace

void answer_json_lines(std::istream& in, std::ostream& out,
                       const std::function<Expected<ordered_json>(const ordered_json&)>& answer) {
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    auto result = parse_object(line).and_then(answer);
    out << (result ? dump(*result) : dump({{"error", result.error().message()}})) << '\n';
  }
  out.flush();
}

Expected<bool> bool_field(const ordered_json& object, const char* name, bool otherwise) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return otherwise;
  if (!found->is_boolean()) return invalid_argument("{} is a {}, not a boolean", name, found->type_name());
  return found->get<bool>();
}

Status refuse_unknown_fields(const ordered_json& object, std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) return invalid_argument("unknown field {}", key);
  }
  return {};
}

ordered_json json_number(float value) {
  if (!std::isfinite(value)) return nullptr;
  char text[32];
  const auto written = std::to_chars(text, text + sizeof text, value);
  double shortest = 0;
  std::from_chars(text, written.ptr, shortest);
  return shortest;
}

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/true, ordered_json::error_handler_t::replace);
}

}  // namespace lockstep::cli
