// SPDX-License-Identifier: Apache-2.0
// A string that remembers which of its bytes came out of the request.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/budget.h"
#include "chat/rendered.h"

namespace lockstep::chat::jinja {

struct Text {
  std::string bytes;
  std::vector<ByteRange> literal;  ///< sorted, not empty, neither overlapping nor touching
  bool markup = false;             ///< came through `safe` or `escape`: is not escaped again

  bool is_literal_at(size_t pos) const;
};

/// Makes a Text out of pieces, keeping their origin, and charges a Budget for it.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(&budget) {}

  /// Text of the template or of the interpreter itself.
  void append(std::string_view piece) { append(piece, /*literal=*/false); }
  void append(std::string_view piece, bool literal);
  void append(const Text& piece) { append(piece, 0, piece.bytes.size()); }
  /// Bytes [begin, end) of `piece`.
  void append(const Text& piece, size_t begin, size_t end);
  void append_repeated(std::string_view piece, size_t count);

  size_t size() const { return text_.bytes.size(); }
  Text finish() {
    budget_->bytes(sizeof(Text));
    return std::move(text_);
  }
  Budget& budget() { return *budget_; }

 private:
  void reserve_room(size_t count);
  void mark(size_t begin, size_t end);

  Budget* budget_;
  Text text_;
};

}  // namespace lockstep::chat::jinja
