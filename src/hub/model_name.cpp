// SPDX-License-Identifier: Apache-2.0
#include "hub/model_name.h"

#include <algorithm>

namespace lockstep::hub {
namespace {

constexpr size_t kLongestPart = 96;
constexpr size_t kLongestFile = 1024, kLongestFilePart = 255;

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

Status check_part(std::string_view part, std::string_view what, std::string_view text) {
  const auto refuse = [&](std::string_view reason) -> Status {
    return invalid_argument("model {}: {} '{}' {}", text, what, part, reason);
  };
  if (part.empty()) return refuse("is empty; expected org/name");
  if (part.size() > kLongestPart) return refuse("is longer than 96 characters");
  if (!std::all_of(part.begin(), part.end(), [](char c) { return is_word(c) || c == '-' || c == '.'; })) {
    return refuse("may have letters, digits, '-', '_' and '.' only");
  }
  if (part.find("--") != part.npos || part.find("..") != part.npos) return refuse("has '--' or '..'");
  if (!is_word(part.front()) || !is_word(part.back())) return refuse("begins or ends with '-' or '.'");
  if (part.ends_with(".git")) return refuse("ends in '.git'");
  return {};
}

}  // namespace

bool is_safe_file_name(std::string_view name) {
  if (name.empty() || name.size() > kLongestFile || name.front() == '/') return false;
  for (const char c : name) {
    if (c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == ".." || part.size() > kLongestFilePart) return false;
    begin = end + 1;
  }
  return true;
}

bool resembles_model_name(std::string_view text) {
  const std::string_view repository = text.substr(0, text.find_first_of("@:"));
  const size_t slash = repository.find('/');
  if (slash == repository.npos || slash == 0 || slash + 1 == repository.size()) return false;
  return repository.find('/', slash + 1) == repository.npos && repository.front() != '.' && repository.front() != '~';
}

Expected<ModelName> parse_model_name(std::string_view text) {
  ModelName out;
  std::string_view rest = text;
  if (const size_t colon = rest.find(':'); colon != rest.npos) {
    out.file = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!is_safe_file_name(out.file)) return invalid_argument("model {}: '{}' is not a file's name", text, out.file);
  }
  if (const size_t at = rest.find('@'); at != rest.npos) {
    out.revision = rest.substr(at + 1);
    rest = rest.substr(0, at);
    const auto allowed = [](char c) { return is_word(c) || c == '-' || c == '.' || c == '/'; };
    if (!is_safe_file_name(out.revision) || !std::all_of(out.revision.begin(), out.revision.end(), allowed)) {
      return invalid_argument("model {}: '{}' is not a revision's name", text, out.revision);
    }
  }
  const size_t slash = rest.find('/');
  if (slash == rest.npos) {
    return invalid_argument("model {}: no such file or folder, and a model of the Hugging Face Hub is named org/name",
                            text);
  }
  out.org = rest.substr(0, slash);
  out.name = rest.substr(slash + 1);
  LOCKSTEP_RETURN_IF_ERROR(check_part(out.org, "organisation", text));
  LOCKSTEP_RETURN_IF_ERROR(check_part(out.name, "name", text));
  return out;
}

}  // namespace lockstep::hub
