// SPDX-License-Identifier: Apache-2.0
// A set of strings for finding those that begin at a place of a text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::tokenizer {

/// Immutable after construction, thread-safe.
class ByteTrie final {
 public:
  static constexpr uint32_t kRoot = 0;

  ByteTrie() : nodes_(1) {}
  /// Strings (not empty) with a value >= 0 each. Of equal strings the last in `entries` wins.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries);

  /// The node one byte further, or kRoot if there is none.
  uint32_t child(uint32_t node, unsigned char byte) const {
    const Node& parent = nodes_[node];
    const auto first = edges_.begin() + parent.first_edge;
    const auto last = first + parent.edge_count;
    const auto found =
        std::lower_bound(first, last, byte, [](const Edge& edge, unsigned char b) { return edge.byte < b; });
    return found != last && found->byte == byte ? found->node : kRoot;
  }
  /// The value of the string that ends here, or -1.
  int32_t value(uint32_t node) const { return nodes_[node].value; }
  /// The bytes that strings begin with.
  std::vector<unsigned char> first_bytes() const;

 private:
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edge_count = 0;
    int32_t value = -1;
  };
  struct Edge {
    unsigned char byte;
    uint32_t node;
  };
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
};

}  // namespace lockstep::tokenizer
