// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {
namespace {

constexpr CategorySet kWord = kLetter | kMark | categories(kCNd, kCNl, kCPc);

bool touches(std::span<const ByteRange> ranges, size_t begin, size_t end) {
  auto after = std::partition_point(ranges.begin(), ranges.end(), [&](const ByteRange& r) { return r.end <= begin; });
  while (after != ranges.end() && after->begin == after->end) ++after;
  return after != ranges.end() && after->begin < end;
}

bool word_before(std::string_view text, size_t pos) {
  return pos > 0 && CategoryTable::get().in(utf8_at(text, utf8_previous(text, pos)).code_point, kWord);
}
bool word_after(std::string_view text, size_t pos) {
  return pos < text.size() && CategoryTable::get().in(utf8_at(text, pos).code_point, kWord);
}

size_t space_before(std::string_view text, size_t pos) {
  while (pos > 0) {
    const size_t before = utf8_previous(text, pos);
    if (!CategoryTable::get().in(utf8_at(text, before).code_point, kSpace)) break;
    pos = before;
  }
  return pos;
}
size_t space_after(std::string_view text, size_t pos) {
  while (pos < text.size()) {
    const Utf8Char c = utf8_at(text, pos);
    if (!CategoryTable::get().in(c.code_point, kSpace)) break;
    pos += c.size;
  }
  return pos;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (size_t i = 0; i < tokens_.size(); ++i) entries.emplace_back(tokens_[i].content, static_cast<int32_t>(i));
  trie_ = ByteTrie(std::move(entries));
  first_bytes_ = trie_.first_bytes();
  for (const unsigned char byte : first_bytes_) is_first_[byte] = true;
}

size_t AddedTokenMatcher::next_start(std::string_view text, size_t from) const {
  if (first_bytes_.size() == 1) {  // nearly always: they all begin with '<'
    const size_t found = text.find(static_cast<char>(first_bytes_[0]), from);
    return found == std::string_view::npos ? text.size() : found;
  }
  while (from < text.size() && !is_first_[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, size_t pos,
                                                std::span<const ByteRange> literal) const {
  const AddedToken* best = nullptr;
  uint32_t node = ByteTrie::kRoot;
  for (size_t end = pos; end < text.size();) {
    node = trie_.child(node, static_cast<unsigned char>(text[end]));
    if (node == ByteTrie::kRoot) break;
    ++end;
    if (trie_.value(node) < 0) continue;
    const AddedToken& token = tokens_[static_cast<size_t>(trie_.value(node))];
    if (!(token.special && touches(literal, pos, end))) best = &token;
  }
  return best;
}

void AddedTokenMatcher::split(std::string_view text, std::span<const ByteRange> literal,
                              std::vector<Segment>& out) const {
  size_t done = 0;  // everything before is in `out`
  for (size_t pos = 0; !tokens_.empty() && (pos = next_start(text, pos)) < text.size();) {
    const AddedToken* token = longest_at(text, pos, literal);
    if (token == nullptr) {
      ++pos;
      continue;
    }
    size_t begin = pos;
    size_t end = pos + token->content.size();
    pos = end;
    if (token->single_word && (word_before(text, begin) || word_after(text, end))) continue;
    if (token->lstrip) begin = std::max(space_before(text, begin), done);
    // The search goes on after the content, as in the library: another token may begin in white space taken here.
    if (token->rstrip) end = space_after(text, end);
    if (done < begin) out.push_back({{done, begin}, -1});
    out.push_back({{begin, end}, token->id});
    done = end;
  }
  if (done < text.size()) out.push_back({{done, text.size()}, -1});
}

}  // namespace lockstep::tokenizer
