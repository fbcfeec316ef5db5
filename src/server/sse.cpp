// SPDX-License-Identifier: Apache-2.0
#include "server/sse.h"

#include "base/check.h"
#include "fmt/format.h"

namespace lockstep::server {

void append_sse(std::string& out, std::string_view payload) {
  out += "data: ";
  out += payload;
  out += "\n\n";
}

void append_chunk(std::string& out, std::string_view data) {
  LOCKSTEP_CHECK(!data.empty());
  out += fmt::format("{:x}\r\n", data.size());
  out += data;
  out += "\r\n";
}

}  // namespace lockstep::server
