// SPDX-License-Identifier: Apache-2.0
#include "chat/jinja/text.h"

#include <algorithm>

namespace lockstep::chat::jinja {

namespace {

/// The first range that ends behind `pos`.
std::vector<ByteRange>::const_iterator first_after(const std::vector<ByteRange>& ranges, size_t pos) {
  return std::partition_point(ranges.begin(), ranges.end(),
                              [pos](const ByteRange& range) { return static_cast<size_t>(range.end) <= pos; });
}

}  // namespace

bool Text::is_literal_at(size_t pos) const {
  const auto found = first_after(literal, pos);
  return found != literal.end() && static_cast<size_t>(found->begin) <= pos;
}

void TextBuilder::reserve_room(size_t count) {
  budget_->bytes(count);
  budget_->value_size(text_.bytes.size() + count);
}

void TextBuilder::mark(size_t begin, size_t end) {
  if (begin == end) return;
  auto& ranges = text_.literal;
  if (!ranges.empty() && static_cast<size_t>(ranges.back().end) == begin) {
    ranges.back().end = static_cast<int64_t>(end);
  } else {
    ranges.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(end)});
  }
}

void TextBuilder::append(std::string_view piece, bool literal) {
  reserve_room(piece.size());
  const size_t begin = text_.bytes.size();
  text_.bytes.append(piece);
  if (literal) mark(begin, text_.bytes.size());
}

void TextBuilder::append(const Text& piece, size_t begin, size_t end) {
  if (begin >= end) return;
  reserve_room(end - begin);
  const size_t base = text_.bytes.size();
  text_.bytes.append(piece.bytes, begin, end - begin);
  for (auto range = first_after(piece.literal, begin); range != piece.literal.end(); ++range) {
    const size_t from = std::max(static_cast<size_t>(range->begin), begin);
    const size_t to = std::min(static_cast<size_t>(range->end), end);
    if (from >= to) break;
    mark(base + from - begin, base + to - begin);
  }
}

void TextBuilder::append_repeated(std::string_view piece, size_t count) {
  if (piece.empty()) return;
  budget_->value_size(count);  // first, so that the product can't overflow
  reserve_room(piece.size() * count);
  for (size_t i = 0; i < count; ++i) text_.bytes.append(piece);
}

}  // namespace lockstep::chat::jinja
