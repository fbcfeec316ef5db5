// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/byte_trie.h"

namespace lockstep::tokenizer {

// Laid out breadth first: a node covers the sorted strings that share its prefix.
ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Span {
    size_t begin, end, depth;
  };
  std::vector<Span> spans{{0, entries.size(), 0}};
  for (size_t n = 0; n < spans.size(); ++n) {
    auto [begin, end, depth] = spans[n];
    Node node;
    node.first_edge = static_cast<uint32_t>(edges_.size());
    while (begin < end && entries[begin].first.size() == depth) node.value = entries[begin++].second;
    while (begin < end) {
      const char byte = entries[begin].first[depth];
      size_t group = begin;
      while (group < end && entries[group].first[depth] == byte) ++group;
      edges_.push_back({static_cast<unsigned char>(byte), static_cast<uint32_t>(spans.size())});
      spans.push_back({begin, group, depth + 1});
      begin = group;
      ++node.edge_count;
    }
    nodes_.push_back(node);
  }
}

std::vector<unsigned char> ByteTrie::first_bytes() const {
  std::vector<unsigned char> bytes;
  for (uint32_t e = 0; e < nodes_[kRoot].edge_count; ++e) bytes.push_back(edges_[e].byte);
  return bytes;
}

}  // namespace lockstep::tokenizer
