// SPDX-License-Identifier: Apache-2.0
// GPT-2's alphabet: each byte is written as a printable character (https://github.com/openai/gpt-2, bytes_to_unicode).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lockstep::tokenizer {

/// The bytes that `spelling` stands for, or nullopt if it has a character outside the alphabet. Must be valid UTF-8.
std::optional<std::string> byte_level_bytes(std::string_view spelling);

/// The character of a byte.
char32_t byte_level_char(unsigned char byte);

}  // namespace lockstep::tokenizer
