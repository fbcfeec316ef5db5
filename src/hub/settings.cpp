// SPDX-License-Identifier: Apache-2.0
#include "hub/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace lockstep::hub {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path expand_home(const std::string& path) {
  return path.starts_with("~/") ? fs::path(variable("HOME")) / path.substr(2) : fs::path(path);
}

bool is_true(std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  return value == "1" || value == "true" || value == "yes" || value == "on";
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

Expected<std::string> read_token(const fs::path& home) {
  std::string token = trimmed(variable("HF_TOKEN"));
  if (token.empty()) {
    const std::string named = variable("HF_TOKEN_PATH");
    std::ifstream file(named.empty() ? home / "token" : expand_home(named));
    std::getline(file, token);
    token = trimmed(token);
  }
  const bool printable = std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!printable || token.size() > 4096) {
    return invalid_argument("HF_TOKEN (or the token file): has blanks or characters that no token has");
  }
  return token;
}

Status read_integer(const char* name, int64_t least, int64_t most, int64_t& out) {
  const std::string text = variable(name);
  if (text.empty()) return {};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (code == std::errc{} && end == text.data() + text.size() && out >= least && out <= most) return {};
  return invalid_argument("{} is {}, expected an integer of {} to {}", name, text, least, most);
}

}  // namespace

Expected<Settings> settings_from_environment() {
  Settings out;
  if (const std::string endpoint = trimmed(variable("HF_ENDPOINT")); !endpoint.empty()) {
    if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://")) {
      return invalid_argument("HF_ENDPOINT is {}, expected an address that begins with http:// or https://", endpoint);
    }
    out.endpoint = endpoint;
    while (out.endpoint.ends_with('/')) out.endpoint.pop_back();
  }
  fs::path home = expand_home(variable("HF_HOME"));
  if (home.empty()) {
    const std::string cache = variable("XDG_CACHE_HOME");
    home = (cache.empty() ? fs::path(variable("HOME")) / ".cache" : expand_home(cache)) / "huggingface";
  }
  const std::string cache = variable("HF_HUB_CACHE");
  out.cache = cache.empty() ? home / "hub" : expand_home(cache);
  if (out.cache.is_relative()) {
    std::error_code code;
    out.cache = fs::absolute(out.cache, code);
    if (code) return invalid_argument("HF_HUB_CACHE is {}: {}", out.cache.string(), code.message());
  }
  LOCKSTEP_ASSIGN_OR_RETURN(out.token, read_token(home));
  out.offline = is_true(variable("HF_HUB_OFFLINE"));
  LOCKSTEP_RETURN_IF_ERROR(read_integer("LOCKSTEP_HUB_CHUNK_BYTES", 1024, int64_t{1} << 40, out.chunk_bytes));
  LOCKSTEP_RETURN_IF_ERROR(read_integer("LOCKSTEP_HUB_RETRIES", 0, 100, out.retries));
  return out;
}

}  // namespace lockstep::hub
