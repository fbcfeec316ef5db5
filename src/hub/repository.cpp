// SPDX-License-Identifier: Apache-2.0
#include "hub/repository.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "files/strict_json.h"
#include "hub/file_hash.h"

namespace lockstep::hub {
namespace {

using nlohmann::json;

constexpr size_t kMostFiles = 100000;
constexpr int kMostRedirects = 5;

std::string without_quotes(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

/// The address that a redirect leads to, if it stays on the endpoint; else "".
std::string redirect_on_endpoint(const Settings& settings, std::string_view location) {
  if (location.starts_with("/") && !location.starts_with("//")) {
    const size_t host = settings.endpoint.find("//") + 2;
    const size_t path = settings.endpoint.find('/', host);
    return settings.endpoint.substr(0, path) + std::string(location);
  }
  return location.starts_with(settings.endpoint + "/") ? std::string(location) : "";
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// "NAME-00001-of-00003.gguf" -> "NAME-*-of-00003.gguf"; other names stay.
std::string without_part_number(const std::string& file) {
  constexpr size_t kTail = std::string_view("-00001-of-00003.gguf").size();
  if (file.size() <= kTail) return file;
  const size_t at = file.size() - kTail;
  const auto digits = [&](size_t begin) {
    return std::all_of(file.begin() + static_cast<ptrdiff_t>(begin), file.begin() + static_cast<ptrdiff_t>(begin) + 5,
                       [](char c) { return c >= '0' && c <= '9'; });
  };
  if (file[at] != '-' || file.compare(at + 6, 4, "-of-") != 0 || !digits(at + 1) || !digits(at + 10)) return file;
  return file.substr(0, at + 1) + "*" + file.substr(at + 6);
}

}  // namespace

Expected<Listing> parse_listing(std::string_view text, std::string_view source) {
  LOCKSTEP_ASSIGN_OR_RETURN(const json root, files::parse_json(text, source));
  const auto broken = [&](std::string_view what) -> Expected<Listing> {
    return error(StatusCode::kDataLoss, "{}: {}: not an answer of a Hugging Face Hub", source, what);
  };
  if (!root.is_object() || !root.contains("sha") || !root["sha"].is_string()) return broken("sha is missing");
  if (!root.contains("siblings") || !root["siblings"].is_array()) return broken("siblings is missing");
  Listing out;
  out.commit = root["sha"];
  if (hash_kind(out.commit) != HashKind::kGitSha1) return broken("sha is no commit");
  if (root["siblings"].size() > kMostFiles) return broken("more than 100000 files");
  for (const json& entry : root["siblings"]) {
    if (!entry.is_object() || !entry.contains("rfilename") || !entry["rfilename"].is_string()) {
      return broken("a file without rfilename");
    }
    std::string name = entry["rfilename"];
    if (!is_safe_file_name(name)) return broken("a file's name leads out of its folder");
    out.files.push_back(std::move(name));
  }
  return out;
}

Expected<Listing> list_files(const Http& http, const Settings& settings, const ModelName& model) {
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  // The revision is one part of the path: a slash in it is encoded too.
  std::string revision = encode_path(model.revision);
  for (size_t at = 0; (at = revision.find('/', at)) != revision.npos;) revision.replace(at, 1, "%2F");
  std::string url = fmt::format("{}/api/models/{}/revision/{}", settings.endpoint, model.repository(), revision);
  for (int i = 0; i <= kMostRedirects; ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Reply reply, http.send("GET", url, kMostBytes));
    if (reply.status == 200) return parse_listing(reply.body, url);
    const bool redirect = reply.status >= 300 && reply.status < 400;
    url = redirect ? redirect_on_endpoint(settings, reply.header("location")) : "";
    if (url.empty())
      return unexpected(refusal(settings, model.repository(), model.revision, reply.status, reply.headers));
  }
  return error(StatusCode::kUnavailable, "{}: more than {} redirects", model.repository(), kMostRedirects);
}

Expected<RemoteFile> describe_file(const Http& http, const Settings& settings, const ModelName& model,
                                   const std::string& commit, const std::string& file) {
  RemoteFile out;
  out.name = file;
  out.url = fmt::format("{}/{}/resolve/{}/{}", settings.endpoint, model.repository(), commit, encode_path(file));
  std::string url = out.url, size, etag, said_commit;
  for (int i = 0; i <= kMostRedirects && !url.empty(); ++i) {
    LOCKSTEP_ASSIGN_OR_RETURN(const Reply reply, http.send("HEAD", url));
    const bool redirect = reply.status >= 300 && reply.status < 400;
    if (reply.status != 200 && !redirect) {
      return unexpected(refusal(settings, model.repository(), file, reply.status, reply.headers));
    }
    if (said_commit.empty()) said_commit = reply.header("x-repo-commit");
    if (etag.empty()) etag = reply.header("x-linked-etag");
    if (size.empty()) size = reply.header("x-linked-size");
    if (!redirect) {
      if (etag.empty()) etag = reply.header("etag");
      if (size.empty()) size = reply.header("content-length");
    }
    url = redirect ? redirect_on_endpoint(settings, reply.header("location")) : "";
  }
  out.etag = without_quotes(etag);
  const auto [end, code] = std::from_chars(size.data(), size.data() + size.size(), out.size);
  if (code != std::errc{} || end != size.data() + size.size() || out.size < 0 || out.etag.find('/') != out.etag.npos ||
      !is_safe_file_name(out.etag)) {
    return error(StatusCode::kDataLoss, "{}: {} says neither size nor hash (ETag '{}', size '{}')", out.url,
                 settings.endpoint, out.etag, size);
  }
  if (!said_commit.empty() && said_commit != commit) {
    return error(StatusCode::kDataLoss, "{}: comes from commit {}", out.url, said_commit);
  }
  return out;
}

std::vector<std::string> side_files(const Listing& listing) {
  static const std::set<std::string, std::less<>> kNames = {"config.json",
                                                            "generation_config.json",
                                                            "tokenizer.json",
                                                            "tokenizer_config.json",
                                                            "special_tokens_map.json",
                                                            "chat_template.jinja",
                                                            "model.safetensors.index.json"};
  std::vector<std::string> out;
  for (const std::string& file : listing.files) {
    if (kNames.contains(file)) out.push_back(file);
  }
  return out;
}

Expected<std::vector<std::string>> gguf_files(const std::vector<std::string>& files, const std::string& wanted,
                                              std::string_view model) {
  std::set<std::string> models;  // one entry for all parts of a split file
  std::vector<std::string> chosen;
  for (const std::string& file : files) {
    if (!file.ends_with(".gguf")) continue;
    const std::string whole = without_part_number(file);
    const std::string name = whole.substr(whole.rfind('/') + 1);
    if (file == wanted) {
      models = {whole};
      break;
    }
    if (!wanted.ends_with(".gguf") && lower(name).find(lower(wanted)) != name.npos) models.insert(whole);
  }
  if (models.empty() && wanted.empty()) return chosen;
  if (models.size() != 1) {
    std::string candidates;
    for (const std::string& file : files) {
      if (file.ends_with(".gguf") && candidates.size() < 2000) candidates += (candidates.empty() ? "" : ", ") + file;
    }
    return invalid_argument("model {}: {} of its files match '{}'; name one as org/name:FILE. It has: {}", model,
                            models.empty() ? "none" : fmt::format("{}", models.size()), wanted,
                            candidates.empty() ? "no .gguf file" : candidates);
  }
  for (const std::string& file : files) {
    if (file.ends_with(".gguf") && without_part_number(file) == *models.begin()) chosen.push_back(file);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace lockstep::hub
