// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {
namespace {

constexpr CategorySet kWord = kLetter | kMark | categories(kCNd, kCNl, kCPc);

bool touches(std::span<const ByteRange> ranges, size_t begin, size_t end) {
  const auto after = std::partition_point(ranges.begin(), ranges.end(), [&](const ByteRange& r) { return r.end <= begin; });
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

// The trie is laid out breadth first: a node covers the sorted tokens that share its prefix.
AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::stable_sort(tokens_.begin(), tokens_.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  struct Span {
    size_t begin, end, depth;
  };
  std::vector<Span> spans{{0, tokens_.size(), 0}};
  for (size_t n = 0; n < spans.size(); ++n) {
    auto [begin, end, depth] = spans[n];
    Node node;
    node.first_edge = static_cast<uint32_t>(edges_.size());
    while (begin < end && tokens_[begin].content.size() == depth) node.token = static_cast<int32_t>(begin++);
    while (begin < end) {
      const char byte = tokens_[begin].content[depth];
      size_t group = begin;
      while (group < end && tokens_[group].content[depth] == byte) ++group;
      edges_.push_back({static_cast<unsigned char>(byte), static_cast<uint32_t>(spans.size())});
      spans.push_back({begin, group, depth + 1});
      begin = group;
      ++node.edge_count;
    }
    nodes_.push_back(node);
  }
  for (uint32_t e = 0; e < nodes_[0].edge_count; ++e) starts_[edges_[e].byte] = true;
}

uint32_t AddedTokenMatcher::child(uint32_t node, unsigned char byte) const {
  const Node& parent = nodes_[node];
  const auto first = edges_.begin() + parent.first_edge;
  const auto last = first + parent.edge_count;
  const auto found = std::lower_bound(first, last, byte, [](const Edge& edge, unsigned char b) { return edge.byte < b; });
  return found != last && found->byte == byte ? found->node : 0;
}

size_t AddedTokenMatcher::next_start(std::string_view text, size_t from) const {
  if (nodes_[0].edge_count == 1) {  // nearly always: they all begin with '<'
    const size_t found = text.find(static_cast<char>(edges_[0].byte), from);
    return found == std::string_view::npos ? text.size() : found;
  }
  while (from < text.size() && !starts_[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, size_t pos, std::span<const ByteRange> literal) const {
  const AddedToken* best = nullptr;
  uint32_t node = 0;
  for (size_t end = pos; end < text.size();) {
    node = child(node, static_cast<unsigned char>(text[end]));
    if (node == 0) break;
    ++end;
    if (nodes_[node].token < 0) continue;
    const AddedToken& token = tokens_[static_cast<size_t>(nodes_[node].token)];
    if (!(token.special && touches(literal, pos, end))) best = &token;
  }
  return best;
}

void AddedTokenMatcher::split(std::string_view text, std::span<const ByteRange> literal, std::vector<Segment>& out) const {
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
    if (token->rstrip) pos = end = space_after(text, end);
    if (done < begin) out.push_back({{done, begin}, -1});
    out.push_back({{begin, end}, token->id});
    done = end;
  }
  if (done < text.size()) out.push_back({{done, text.size()}, -1});
}

}  // namespace lockstep::tokenizer
