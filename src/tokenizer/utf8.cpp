// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/utf8.h"

#include <cstring>

namespace lockstep::tokenizer {
namespace {

struct SecondByte {
  uint32_t size = 0;  // of the character; 0: not a first byte
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
};

// Table 3-7 of the Unicode standard: well-formed byte sequences.
SecondByte classify_first(unsigned char first) {
  if (first >= 0xC2 && first <= 0xDF) return {2, 0x80, 0xBF};
  if (first == 0xE0) return {3, 0xA0, 0xBF};
  if (first == 0xED) return {3, 0x80, 0x9F};
  if (first >= 0xE1 && first <= 0xEF) return {3, 0x80, 0xBF};
  if (first == 0xF0) return {4, 0x90, 0xBF};
  if (first >= 0xF1 && first <= 0xF3) return {4, 0x80, 0xBF};
  if (first == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

// Bytes of a well-formed character at the start of text, or 0.
size_t whole_char_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const SecondByte second = classify_first(first);
  if (second.size == 0 || text.size() < second.size) return 0;
  const auto b1 = static_cast<unsigned char>(text[1]);
  if (b1 < second.low || b1 > second.high) return 0;
  for (size_t i = 2; i < second.size; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return second.size;
}

}  // namespace

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(static_cast<unsigned char>(byte))); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    if (pos + 8 <= text.size()) {  // eight ASCII bytes at a time
      uint64_t word = 0;
      std::memcpy(&word, text.data() + pos, 8);
      if ((word & 0x8080808080808080u) == 0) {
        pos += 8;
        continue;
      }
    }
    const size_t size = whole_char_size(text.substr(pos));
    if (size == 0) return pos;
    pos += size;
  }
  return pos;
}

size_t invalid_utf8_size(std::string_view text, bool& truncated) {
  truncated = false;
  const SecondByte second = classify_first(static_cast<unsigned char>(text[0]));
  if (second.size == 0) return 1;
  size_t size = 1;
  while (size < second.size) {
    if (size == text.size()) {
      truncated = true;
      return size;
    }
    const auto byte = static_cast<unsigned char>(text[size]);
    const bool good = size == 1 ? byte >= second.low && byte <= second.high : (byte & 0xC0) == 0x80;
    if (!good) return size;
    ++size;
  }
  return size;
}

size_t append_replacing_invalid(std::string& out, std::string_view bytes, bool keep_truncated) {
  while (!bytes.empty()) {
    const size_t good = valid_utf8_prefix(bytes);
    out.append(bytes.substr(0, good));
    bytes.remove_prefix(good);
    if (bytes.empty()) return 0;
    bool truncated = false;
    const size_t bad = invalid_utf8_size(bytes, truncated);
    if (truncated && keep_truncated) return bytes.size();
    append_utf8(out, kReplacementCharacter);
    bytes.remove_prefix(bad);
  }
  return 0;
}

}  // namespace lockstep::tokenizer
