// SPDX-License-Identifier: Apache-2.0
// Framing of streamed answers: server-sent events inside HTTP/1.1 chunks.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::server {

/// Appends one event: "data: <payload>\n\n". The payload is one line (compact JSON is).
void append_sse(std::string& out, std::string_view payload);
inline constexpr std::string_view kSseDone = "[DONE]";

/// Appends one chunk of the chunked transfer coding (RFC 9112, 7.1). `data` is not empty: that would end the body.
void append_chunk(std::string& out, std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace lockstep::server
