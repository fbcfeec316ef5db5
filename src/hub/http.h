// SPDX-License-Identifier: Apache-2.0
// HTTP requests by libcurl. Addresses never leave the endpoint's scheme for a weaker one; the token goes to the
// endpoint's host only (libcurl drops the header where a redirect leads to another host, scheme or port).
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "hub/settings.h"

namespace lockstep::hub {

using Easy = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using Headers = std::map<std::string, std::string, std::less<>>;  ///< names in lower case

struct Reply {
  long status = 0;
  Headers headers;
  std::string body;
  std::string url;

  /// A header's value, or "".
  std::string_view header(std::string_view name) const;
};

/// Adds a header line of a reply; a status line begins a new reply and clears the rest.
void add_header_line(std::string_view line, Headers& headers);
/// Seconds that a 429 or 503 asks to wait, 0..60; 0 if it says nothing in seconds.
int64_t retry_after_s(const Headers& headers);
/// Whether a later try may succeed: 408, 429 and 5xx.
bool is_passing(long status);
/// Same for a libcurl result that stands for the network's weather.
bool is_passing(CURLcode code);
/// What a refused request means and what to do: by status and the Hub's X-Error-Code.
Status refusal(const Settings& settings, std::string_view repository, std::string_view what, long status,
               const Headers& headers);
/// name with everything but letters, digits, "-._~" and '/' percent-encoded.
std::string encode_path(std::string_view name);

/// One connection after another to the endpoint. Not thread-safe.
class Http final {
 public:
  explicit Http(const Settings& settings);

  /// The headers that every request has. Owned by this.
  curl_slist* headers() const { return headers_.get(); }
  /// A handle with everything but the address set. Never null: out of memory ends the process as elsewhere.
  Easy handle() const;
  /// One request with retries, no redirects followed. Errors: kUnavailable (network), kDataLoss (body above max_bytes).
  Expected<Reply> send(const std::string& method, const std::string& url, int64_t max_bytes = int64_t{1} << 20) const;

 private:
  Expected<Reply> send_once(const std::string& method, const std::string& url, int64_t max_bytes, bool& passing) const;

  const Settings& settings_;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers_;
  mutable Easy easy_;
};

}  // namespace lockstep::hub
