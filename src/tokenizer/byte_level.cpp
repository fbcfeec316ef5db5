// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/byte_level.h"

#include <array>
#include <cstdint>

#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {
namespace {

// '!'..'~', U+00A1..U+00AC and U+00AE..U+00FF stand for themselves, the other 68 bytes, ascending, for U+0100 and up.
constexpr bool is_printable(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> char_of{};
  std::array<int16_t, 0x144> byte_of{};
};

constexpr Alphabet make_alphabet() {
  Alphabet out;
  for (auto& byte : out.byte_of) byte = -1;
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    out.char_of[byte] = is_printable(byte) ? static_cast<char32_t>(byte) : next++;
    out.byte_of[out.char_of[byte]] = static_cast<int16_t>(byte);
  }
  return out;
}
constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> byte_level_bytes(std::string_view spelling) {
  std::string out;
  for (size_t pos = 0; pos < spelling.size();) {
    const Utf8Char c = utf8_at(spelling, pos);
    if (c.code_point >= kAlphabet.byte_of.size() || kAlphabet.byte_of[c.code_point] < 0) return std::nullopt;
    out.push_back(static_cast<char>(kAlphabet.byte_of[c.code_point]));
    pos += c.size;
  }
  return out;
}

char32_t byte_level_char(unsigned char byte) { return kAlphabet.char_of[byte]; }

}  // namespace lockstep::tokenizer
