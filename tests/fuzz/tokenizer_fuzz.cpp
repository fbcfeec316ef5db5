// SPDX-License-Identifier: Apache-2.0
// A tokenizer.json, then after a zero byte a text: an error, or a tokenizer whose ids are its own and whose calls all
// return. The text is also taken as literal from its middle on, as the chat path does.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tokenizer/tokenizer.h"

namespace {

using lockstep::tokenizer::ByteRange;
using lockstep::tokenizer::Tokenizer;

void check_ids(const Tokenizer& tokenizer, const lockstep::Expected<std::vector<int32_t>>& ids) {
  if (!ids) {
    LOCKSTEP_CHECK(!ids.error().message().empty());
    return;
  }
  for (const int32_t id : *ids) {
    LOCKSTEP_CHECK(id >= 0 && id < tokenizer.vocab_size());
    (void)tokenizer.token_bytes(id);
    (void)tokenizer.is_special(id);
  }
  (void)tokenizer.decode(*ids, /*skip_special_tokens=*/false);
  (void)tokenizer.decode(*ids, /*skip_special_tokens=*/true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const std::string_view text = zero == std::string_view::npos ? "Hello w\xc3\xb6rld  <s>\n42" : input.substr(zero + 1);
  const auto tokenizer =
      Tokenizer::from_json({.name = "tokenizer.json", .tokenizer_json = std::string(input.substr(0, zero))});
  if (!tokenizer) {
    LOCKSTEP_CHECK(!tokenizer.error().message().empty());
    return 0;
  }
  check_ids(**tokenizer, (*tokenizer)->encode(text, {.parse_special = true, .add_special_tokens = true}));
  check_ids(**tokenizer, (*tokenizer)->encode(text, {.parse_special = false}));
  const ByteRange half[] = {{text.size() / 2, text.size()}};
  check_ids(**tokenizer, (*tokenizer)->encode_with_literal_ranges(text, half));
  return 0;
}
