// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/unigram.h"

#include <algorithm>

#include "tokenizer/utf8.h"

namespace lockstep::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10.0;  // below the worst score, as in SentencePiece

struct Node {  // the best way to reach a byte offset
  double score = 0;
  uint32_t begin = 0;  // where its last token starts
  int32_t id = -1;     // that token; -1: not reached
};

}  // namespace

class UnigramModel::Scratch final : public ModelScratch {
 public:
  std::vector<Node> best;
  std::vector<uint32_t> ends;
};

UnigramModel::UnigramModel(UnigramConfig config) : config_(std::move(config)) {
  std::vector<std::pair<std::string_view, int32_t>> entries;
  for (int32_t id = 0; id < config_.pieces->size(); ++id) {
    if (!config_.pieces->at(id).empty()) entries.emplace_back(config_.pieces->at(id), id);
  }
  trie_ = ByteTrie(std::move(entries));
  unknown_score_ = *std::min_element(config_.scores.begin(), config_.scores.end()) - kUnknownPenalty;
}

std::unique_ptr<ModelScratch> UnigramModel::make_scratch() const { return std::make_unique<Scratch>(); }

void UnigramModel::find_best_path(std::string_view piece, Scratch& scratch) const {
  auto& best = scratch.best;
  best.assign(piece.size() + 1, Node{});
  const auto offer = [&](size_t begin, size_t end, double score, int32_t id) {
    const double total = score + best[begin].score;
    if (best[end].id < 0 || total > best[end].score) best[end] = {total, static_cast<uint32_t>(begin), id};
  };
  for (size_t begin = 0; begin < piece.size();) {
    const size_t char_end = begin + utf8_at(piece, begin).size;
    bool has_char = false;
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = begin; end < piece.size();) {
      node = trie_.child(node, static_cast<unsigned char>(piece[end]));
      if (node == ByteTrie::kRoot) break;
      ++end;
      const int32_t id = trie_.value(node);
      if (id < 0) continue;
      offer(begin, end, config_.scores[static_cast<size_t>(id)], id);
      has_char = has_char || end == char_end;
    }
    if (!has_char) offer(begin, char_end, unknown_score_, config_.unknown_id);
    begin = char_end;
  }
}

void UnigramModel::put_unknown(std::string_view text, std::vector<int32_t>& out) const {
  const auto id_of = [&](char c) { return config_.byte_ids[static_cast<unsigned char>(c)]; };
  if (config_.byte_fallback && std::all_of(text.begin(), text.end(), [&](char c) { return id_of(c) >= 0; })) {
    for (const char c : text) out.push_back(id_of(c));
  } else {
    out.push_back(config_.unknown_id);
  }
}

void UnigramModel::encode(std::string_view piece, ModelScratch& scratch, std::vector<int32_t>& out) const {
  auto& memory = static_cast<Scratch&>(scratch);
  find_best_path(piece, memory);
  memory.ends.clear();
  for (auto end = static_cast<uint32_t>(piece.size()); end > 0; end = memory.best[end].begin)
    memory.ends.push_back(end);
  std::reverse(memory.ends.begin(), memory.ends.end());
  size_t unknown_begin = 0;
  size_t unknown_end = 0;  // a run of unknown characters is put when it ends
  for (const uint32_t end : memory.ends) {
    const Node& node = memory.best[end];
    if (node.id == config_.unknown_id) {
      if (unknown_begin == unknown_end) unknown_begin = node.begin;
      unknown_end = end;
      continue;
    }
    if (unknown_begin != unknown_end) put_unknown(piece.substr(unknown_begin, unknown_end - unknown_begin), out);
    unknown_begin = unknown_end = 0;
    out.push_back(node.id);
  }
  if (unknown_begin != unknown_end) put_unknown(piece.substr(unknown_begin, unknown_end - unknown_begin), out);
}

}  // namespace lockstep::tokenizer
