// SPDX-License-Identifier: Apache-2.0
#include "hub/http.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <new>
#include <thread>

#include "base/log.h"

namespace lockstep::hub {
namespace {

constexpr long kConnectSeconds = 10, kStalledSeconds = 30;

struct Body {
  std::string text;
  int64_t max_bytes;
};

size_t take_body(char* data, size_t, size_t size, void* body_pointer) {
  auto& body = *static_cast<Body*>(body_pointer);
  if (static_cast<int64_t>(body.text.size() + size) > body.max_bytes) return CURL_WRITEFUNC_ERROR;
  body.text.append(data, size);
  return size;
}

size_t take_header(char* data, size_t, size_t size, void* headers) {
  add_header_line({data, size}, *static_cast<Headers*>(headers));
  return size;
}

}  // namespace

std::string_view Reply::header(std::string_view name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : found->second;
}

void add_header_line(std::string_view line, Headers& headers) {
  constexpr size_t kMostHeaders = 200;
  if (line.starts_with("HTTP/")) headers.clear();
  const size_t colon = line.find(':');
  if (colon == line.npos || headers.size() >= kMostHeaders) return;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  line.remove_prefix(colon + 1);
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
  while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
  headers[name] = line;
}

int64_t retry_after_s(const Headers& headers) {
  const auto found = headers.find("retry-after");
  int64_t seconds = 0;
  if (found != headers.end()) {
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), seconds);
  }
  return std::clamp<int64_t>(seconds, 0, 60);
}

bool is_passing(long status) { return status == 408 || status == 429 || (status >= 500 && status <= 599); }

bool is_passing(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SSL_CONNECT_ERROR:
      return true;
    default:
      return false;
  }
}

Status refusal(const Settings& settings, std::string_view repository, std::string_view what, long status,
               const Headers& headers) {
  const auto found = headers.find("x-error-code");
  const std::string code = found == headers.end() ? "" : found->second;
  const std::string page = fmt::format("{}/{}", settings.endpoint, repository);
  if (code == "GatedRepo") {
    return error(StatusCode::kFailedPrecondition,
                 "{}: the model is gated: accept its terms at {}, then set HF_TOKEN to your token", repository, page);
  }
  if (code == "RevisionNotFound") return error(StatusCode::kNotFound, "{}: there is no revision {}", repository, what);
  if (code == "EntryNotFound") return error(StatusCode::kNotFound, "{}: there is no file {}", repository, what);
  if (code == "DisabledRepo") return error(StatusCode::kNotFound, "{}: the Hub has disabled this model", repository);
  if (status == 401 || status == 403 || status == 404) {
    return error(
        StatusCode::kNotFound,
        "{}: {} answers {}: there is no such model, or it is private. Check the name; for a private model {}",
        repository, settings.endpoint, status,
        settings.token.empty() ? "set HF_TOKEN to your token" : "check that the token in HF_TOKEN may read it");
  }
  return error(is_passing(status) ? StatusCode::kUnavailable : StatusCode::kNotFound, "{}: {} answers {} for {}",
               repository, settings.endpoint, status, what);
}

std::string encode_path(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~' || c == '/';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Http::Http(const Settings& settings)
    : settings_(settings), headers_(nullptr, &curl_slist_free_all), easy_(nullptr, &curl_easy_cleanup) {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (initialised != CURLE_OK) throw std::bad_alloc();
  if (!settings.token.empty()) {
    headers_.reset(curl_slist_append(nullptr, fmt::format("Authorization: Bearer {}", settings.token).c_str()));
  }
  easy_ = handle();
}

Easy Http::handle() const {
  Easy out(curl_easy_init(), &curl_easy_cleanup);
  if (out == nullptr) throw std::bad_alloc();
  const bool secure = settings_.endpoint.starts_with("https://");
  curl_easy_setopt(out.get(), CURLOPT_PROTOCOLS_STR, secure ? "https" : "http,https");
  curl_easy_setopt(out.get(), CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
  curl_easy_setopt(out.get(), CURLOPT_USERAGENT, "lockstep/0.1.0");
  curl_easy_setopt(out.get(), CURLOPT_HTTPHEADER, headers_.get());
  curl_easy_setopt(out.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(out.get(), CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(out.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(out.get(), CURLOPT_LOW_SPEED_TIME, kStalledSeconds);
  return out;
}

Expected<Reply> Http::send(const std::string& method, const std::string& url, int64_t max_bytes) const {
  for (int attempt = 0;; ++attempt) {
    bool passing = false;
    auto reply = send_once(method, url, max_bytes, passing);
    if (!passing || attempt >= settings_.retries) return reply;
    const int64_t wait_ms = std::max(std::min<int64_t>(settings_.first_wait_ms << attempt, 60000),
                                     reply ? 1000 * retry_after_s(reply->headers) : 0);
    log_info("{}: {}; trying again in {:.1f} s", url,
             reply ? fmt::format("status {}", reply->status) : reply.error().message(),
             static_cast<double>(wait_ms) / 1e3);
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
  }
}

Expected<Reply> Http::send_once(const std::string& method, const std::string& url, int64_t max_bytes,
                                bool& passing) const {
  Reply reply;
  reply.url = url;
  Body body{{}, max_bytes};
  CURL* easy = easy_.get();
  curl_easy_setopt(easy, CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy, CURLOPT_NOBODY, method == "HEAD" ? 1L : 0L);
  if (method != "HEAD") curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &take_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &take_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &reply.headers);
  const CURLcode code = curl_easy_perform(easy);
  passing = is_passing(code);
  if (code == CURLE_WRITE_ERROR)
    return error(StatusCode::kDataLoss, "{}: the answer is longer than {} bytes", url, max_bytes);
  if (code != CURLE_OK) return error(StatusCode::kUnavailable, "{}: {}", url, curl_easy_strerror(code));
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &reply.status);
  passing = is_passing(reply.status);
  reply.body = std::move(body.text);
  return reply;
}

}  // namespace lockstep::hub
