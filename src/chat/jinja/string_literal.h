// SPDX-License-Identifier: Apache-2.0
// What stands between the quotes of a string literal.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::chat::jinja {

/// "\r\n" and "\r" become "\n".
std::string normalise_newlines(std::string_view text);

/// Python's unicode-escape decoding. Appends to `out`; returns what is wrong, or "".
std::string decode_string_literal(std::string_view text, std::string& out);

}  // namespace lockstep::chat::jinja
