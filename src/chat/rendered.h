// SPDX-License-Identifier: Apache-2.0
// What rendering a template gives: the text, and which of its bytes came out of the request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::chat {

/// Bytes [begin, end) of a text.
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

/// `literal` holds the request-born bytes of `text`: sorted, not empty, neither overlapping nor touching. The tokenizer
/// must not match special tokens that touch such a range (docs: api.md, decision 1), so a user can't forge a turn.
struct Rendered {
  std::string text;  ///< UTF-8
  std::vector<ByteRange> literal;
};

}  // namespace lockstep::chat
